-- For callers in SQL: enqueues one execution inside of the caller's transaction and returns its id. A known idempotency key is no error,
-- and key_mode gives it another effect (docs/design/keys.md). params is a JSON object and is stored byte for byte. It may be text, jsonb
-- or json. Only text has a default, so that a call without params is not ambiguous. Raises the refusals of try_enqueue(). Locks: those of
-- try_enqueue().
CREATE OR REPLACE FUNCTION :schema.enqueue(workspace text, workflow text, params text DEFAULT NULL, idempotency_key text DEFAULT NULL,
                                priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                execution_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, business_key text DEFAULT NULL,
                                labels jsonb DEFAULT NULL, key_mode text DEFAULT NULL,
                                debounce interval DEFAULT NULL, debounce_max interval DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer record;
BEGIN
    SELECT * INTO answer FROM :schema.try_enqueue(workspace, workflow, params, idempotency_key, priority, run_at, executor_group,
                                                  execution_id, traceparent, business_key, labels, key_mode, debounce,
                                                  debounce_max);
    IF answer.code <> 'ok' THEN
        PERFORM :schema.refuse(answer.code, answer.message, answer.hint);
    END IF;
    RETURN answer.id;
END
$$;

CREATE OR REPLACE FUNCTION :schema.enqueue(workspace text, workflow text, params jsonb, idempotency_key text DEFAULT NULL,
                                priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                execution_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, business_key text DEFAULT NULL,
                                labels jsonb DEFAULT NULL, key_mode text DEFAULT NULL,
                                debounce interval DEFAULT NULL, debounce_max interval DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.enqueue(workspace, workflow, params::text, idempotency_key, priority, run_at, executor_group, execution_id,
                           traceparent, business_key, labels, key_mode, debounce, debounce_max)
$$;

CREATE OR REPLACE FUNCTION :schema.enqueue(workspace text, workflow text, params json, idempotency_key text DEFAULT NULL,
                                priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                execution_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, business_key text DEFAULT NULL,
                                labels jsonb DEFAULT NULL, key_mode text DEFAULT NULL,
                                debounce interval DEFAULT NULL, debounce_max interval DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.enqueue(workspace, workflow, params::text, idempotency_key, priority, run_at, executor_group, execution_id,
                           traceparent, business_key, labels, key_mode, debounce, debounce_max)
$$;

REVOKE ALL ON FUNCTION
    :schema.enqueue(text, text, text, text, integer, timestamptz, text, uuid, text, text, jsonb, text, interval, interval),
    :schema.enqueue(text, text, jsonb, text, integer, timestamptz, text, uuid, text, text, jsonb, text, interval, interval),
    :schema.enqueue(text, text, json, text, integer, timestamptz, text, uuid, text, text, jsonb, text, interval, interval) FROM PUBLIC;
