-- For callers in SQL: as enqueue(), but a refusal is a row and no error, so it does not end the caller's transaction. The call checks
-- the request, as everything that callers may execute with the rights of the owner. Locks: those of enqueue_set(), with a
-- key_mode those of enqueue_keyed().
CREATE OR REPLACE FUNCTION :schema.try_enqueue(workspace text, workflow text, params text DEFAULT NULL, idempotency_key text DEFAULT NULL,
                                    priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                    execution_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, business_key text DEFAULT NULL,
                                    labels jsonb DEFAULT NULL, key_mode text DEFAULT NULL,
                                    debounce interval DEFAULT NULL, debounce_max interval DEFAULT NULL,
                                    OUT code text, OUT id uuid, OUT duplicate boolean, OUT message text, OUT hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id constant uuid := coalesce(execution_id, :schema.make_id(:schema.store_time(), 0));
    content constant bytea := convert_to(nullif(params, '{}'), 'UTF8');
BEGIN
    duplicate := false;
    SELECT p.status, p.message, p.hint INTO code, message, hint
    FROM :schema.request_problem(workspace, workflow, params, idempotency_key, priority, run_at, executor_group, traceparent,
                                 business_key, labels) p;
    IF code IS NULL AND :schema.execution_id_is_wrong(execution_id) THEN
        code := 'invalid_argument';
        message := format('"%s" is not an execution id', execution_id);
        hint := 'an id is a UUIDv7 of a time that is not more than a day ahead, as 01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79';
    END IF;
    IF code IS NULL AND (key_mode <> 'once' OR debounce IS NOT NULL OR debounce_max IS NOT NULL) THEN
        SELECT p.status, p.message, p.hint INTO code, message, hint
        FROM :schema.key_mode_problem(key_mode, idempotency_key, run_at, debounce, debounce_max) p;
    END IF;
    IF code IS NOT NULL THEN
        RETURN;
    END IF;
    IF NOT :schema.may_use_workspace(workspace) THEN
        code := 'workspace_not_found';
        message := format('there is no workspace "%s"', workspace);
        hint := :schema.hint_with_nearest(code, workspace, NULL, NULL, 'the role is granted its workspaces: grant_workspace()');
        RETURN;
    END IF;
    IF key_mode <> 'once' THEN
        SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO code, id, duplicate, message, hint
        FROM :schema.enqueue_keyed(new_id, execution_id IS NOT NULL, workspace, workflow, content, idempotency_key, executor_group,
                                   priority, :schema.microseconds_of(run_at), NULL, traceparent, business_key,
                                   nullif(labels, '{}')::text, key_mode, (extract(epoch FROM debounce) * 1000000)::bigint,
                                   (extract(epoch FROM coalesce(debounce_max, 10 * debounce)) * 1000000)::bigint, :schema.actor()) s;
    ELSE
        SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO code, id, duplicate, message, hint
        FROM :schema.enqueue_one(new_id, execution_id IS NOT NULL, workspace, workflow, content, idempotency_key, executor_group,
                                 priority, :schema.microseconds_of(run_at), NULL, traceparent, business_key,
                                 nullif(labels, '{}')::text) s;
    END IF;
    hint := :schema.hint_with_nearest(code, workspace, workflow, executor_group, hint);
END
$$;

REVOKE ALL ON FUNCTION
    :schema.try_enqueue(text, text, text, text, integer, timestamptz, text, uuid, text, text, jsonb, text, interval, interval) FROM PUBLIC;
