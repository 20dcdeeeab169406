-- For callers in SQL: sends a signal to an execution, in the caller's transaction, and returns its number. data is JSON, as jsonb, json or
-- text, and only jsonb has a default; NULL = null. The same name, key and data again is the same signal. Raises execution_not_found,
-- illegal_state, invalid_argument, idempotency_key_reused, conflict (it is of a workflow on Temporal). Locks: those of send_signal().
CREATE OR REPLACE FUNCTION :schema.signal(execution_id uuid, name text, data text, key text DEFAULT NULL, reason text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    sent record;
    problem text;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    IF coalesce(name, '') = '' THEN
        PERFORM :schema.refuse('invalid_argument', 'the name of the signal is missing', NULL);
    ELSIF octet_length(key) NOT BETWEEN 1 AND 255 THEN
        PERFORM :schema.refuse('invalid_argument', format('the key of the signal is %s', CASE key WHEN '' THEN 'empty' ELSE 'too long' END),
                               'a key has 1 to 255 bytes');
    END IF;
    problem := :schema.json_problem(data, false);
    IF problem IS NOT NULL THEN
        PERFORM :schema.refuse('invalid_argument', 'the data of the signal: ' || problem, 'data is JSON, for example {"by": "eve"}');
    END IF;
    SELECT * INTO sent FROM :schema.send_signal(execution_id, name, coalesce(data, 'null'), key, :schema.actor(), reason);
    IF sent.outcome = 'temporal' THEN
        PERFORM :schema.refuse('conflict',
                               format('execution %s is of a workflow on Temporal, whose service keeps its signals', execution_id),
                               'pass the signal on with `weir signal`, or by POST /v1/executions/ID/signal of a node');
    ELSIF sent.outcome = 'reused' THEN
        PERFORM :schema.refuse('idempotency_key_reused', format('key "%s" belongs to signal %s of execution %s, which has other data', key,
                                                                sent.seq, execution_id),
                               'use another key for another signal');
    ELSIF sent.outcome = 'unknown' THEN
        PERFORM :schema.refuse('invalid_argument', format('no step of execution %s waits for a signal "%s"', execution_id, left(name, 80)),
                               CASE WHEN sent.names = '{}' THEN 'its workflow has no signal steps'
                                    ELSE 'its steps wait for: ' || array_to_string(sent.names, ', ') END);
    ELSIF sent.outcome = 'large' THEN
        PERFORM :schema.refuse('invalid_argument', format('the data of the signal is %s bytes, the limit is 65536', octet_length(data)),
                               'store the data elsewhere and pass a reference to it');
    ELSIF sent.outcome = 'full' THEN
        PERFORM :schema.refuse('illegal_state', format('execution %s keeps %s signals "%s" with %s bytes that no step has consumed',
                                                       execution_id, sent.kept, name, sent.bytes),
                               format('at most 1000 signals and 1048576 bytes of a name are kept; `weir show %s` lists them',
                                      execution_id));
    ELSIF sent.outcome NOT IN ('sent', 'duplicate') THEN
        PERFORM :schema.refuse_act(execution_id, sent.outcome, 'it has ended and takes no signal');
    END IF;
    RETURN sent.seq;
END
$$;

CREATE OR REPLACE FUNCTION :schema.signal(execution_id uuid, name text, data jsonb DEFAULT NULL, key text DEFAULT NULL,
                                          reason text DEFAULT NULL) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.signal(execution_id, name, data::text, key, reason)
$$;

CREATE OR REPLACE FUNCTION :schema.signal(execution_id uuid, name text, data json, key text DEFAULT NULL, reason text DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.signal(execution_id, name, data::text, key, reason)
$$;

REVOKE ALL ON FUNCTION :schema.signal(uuid, text, text, text, text), :schema.signal(uuid, text, jsonb, text, text),
    :schema.signal(uuid, text, json, text, text) FROM PUBLIC;
