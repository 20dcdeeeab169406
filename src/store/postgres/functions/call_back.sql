-- Keeps the report of a function for a step `http` that has called it (store/signals.h). hash: that of the token of the attempt; the name
-- of what the step waits for ends with it. data: JSON text. digest: that of the data, which is removed when it is consumed.
--   outcome  'sent': the report is the signal `seq`; 'duplicate': it was sent before, as `seq`.
--            'other': another one was. 'none': no attempt on record has this token, or its time is over
-- 1. A token of no step and no report is refused before a lock is taken, because anyone may send a made-up one.
-- 2. Under the lock the report is found or kept.
-- Locks: the item, so that a report meets no record of the attempt. Caller: call_back (queries/signals.sql).
CREATE OR REPLACE FUNCTION :schema.call_back(item uuid, hash text, data text, digest text, OUT outcome text, OUT seq bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    name text;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM :schema.signals g WHERE g.execution_id = item AND g.name LIKE 'callback:%' AND right(g.name, 32) = hash)
       AND NOT EXISTS (SELECT 1 FROM :schema.workflow_node_executions s
                       WHERE s.execution_id = item AND s.finished_at IS NULL AND s.signal LIKE 'callback:%' AND right(s.signal, 32) = hash)
    THEN
        outcome := 'none';
        RETURN;
    END IF;
    PERFORM 1 FROM :schema.workflow_execution_queue q WHERE q.id = item FOR NO KEY UPDATE;
    SELECT CASE WHEN g.key = digest THEN 'duplicate' ELSE 'other' END, g.seq INTO outcome, seq FROM :schema.signals g
    WHERE g.execution_id = item AND g.name LIKE 'callback:%' AND right(g.name, 32) = hash;
    IF outcome IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT s.signal INTO name FROM :schema.workflow_node_executions s JOIN :schema.workflow_execution_queue q ON q.id = s.execution_id
    WHERE s.execution_id = item AND q.id = item AND s.finished_at IS NULL AND s.signal LIKE 'callback:%' AND right(s.signal, 32) = hash
      AND (s.status <> 'WAITING' OR s.due_at IS NULL OR s.due_at > :schema.store_time());
    outcome := CASE WHEN name IS NULL THEN 'none' ELSE 'sent' END;
    IF outcome = 'sent' THEN
        seq := :schema.deliver_signal(item, name, data, digest, NULL, NULL, 'signal', left(name, -33), false);
    END IF;
END
$$;
