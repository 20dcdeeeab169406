-- Sends a signal to an execution (store/signals.h). `data` is JSON text.
-- Returns the outcome:
--   'sent'       it is kept
--   'duplicate'  the key was used before with this data, and seq is that of its signal
--   'reused'     the key was used before with other data
--   'temporal'   its service has the signals
--   'unknown'    its steps wait for `names` alone
--   'large'      more than 64 KiB
--   'full'       `kept` signals of the name with `bytes` of data are not consumed. The names share 1 MiB, each has 64 KiB at least
--   a state      that of an ended execution; 'gone' = there is none
--
-- 1. The row is locked, so signals of one execution have their numbers in the order of their commits.
-- 2. deliver_signal() keeps it, and wakes or notifies.
-- is_on_record: the signal is an act of its own. Locks: the item. Callers: signal(), signal_items(), send_signal (queries/signals.sql).
CREATE OR REPLACE FUNCTION :schema.send_signal(item uuid, name text, data text, key text, actor text, why text,
                                               is_on_record boolean DEFAULT true, OUT outcome text,
                                               OUT seq bigint, OUT kept bigint, OUT bytes bigint, OUT names text[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    held record;
    is_same boolean;
BEGIN
    SELECT q.definition_id, q.lane_id INTO held
    FROM :schema.workflow_execution_queue q WHERE q.id = item FOR NO KEY UPDATE;
    IF key IS NOT NULL THEN
        SELECT s.seq, s.data = data INTO seq, is_same FROM :schema.signals s WHERE s.execution_id = item AND s.name = name AND s.key = key;
    END IF;
    IF seq IS NOT NULL THEN
        outcome := CASE WHEN is_same THEN 'duplicate' ELSE 'reused' END;
        RETURN;
    ELSIF held.lane_id IS NULL THEN
        outcome := coalesce((SELECT h.status FROM :schema.workflow_executions h WHERE h.id = item), 'gone');
        RETURN;
    ELSIF (held.lane_id >> 31) & 1 = 1 THEN
        outcome := 'temporal';
        RETURN;
    END IF;
    names := :schema.signal_names(held.definition_id);
    IF name <> ALL (names) THEN
        outcome := 'unknown';
        RETURN;
    ELSIF octet_length(data) > 65536 THEN
        outcome := 'large';
        RETURN;
    END IF;
    SELECT count(*), coalesce(sum(octet_length(s.data)), 0) INTO kept, bytes
    FROM :schema.signals s WHERE s.execution_id = item AND s.name = name AND s.consumed_at IS NULL;
    IF kept >= 1000 OR bytes + octet_length(data) > greatest(1048576 / cardinality(names), 65536) THEN
        outcome := 'full';
        RETURN;
    END IF;
    seq := :schema.deliver_signal(item, name, data, key, actor, why, 'signal', name, is_on_record);
    outcome := 'sent';
END
$$;
