-- Ends the waits of steps of a set of executions before their time, as an act. `wanted`: only waits of this kind (is_wanted_wait()).
-- A row per id. 'changed': waits were ended. 'refused': the execution has ended, with its state ('gone' = there is none). 'temporal', with
-- the state of the item: its service keeps its timers. 'waits': none could be ended, or all were ended by such an act before. It has the
-- state of the item, and how many waits are on record, how many of the kind, and how many of these with a time.
-- 1. The items are locked, so of two acts on one wait the second finds the signal of the first.
-- 2. Each wait gets a signal for its step; the due time is its key. So it is durable, and consumed once (queue/signal.h).
-- 3. A WAITING item becomes runnable. The node of a held one is notified; any other gets the signals with the claim.
-- Locks: the items. Callers: wake(), wake_steps (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.wake_steps(ids uuid[], actor text, why text, wanted text DEFAULT NULL, subject text DEFAULT NULL)
RETURNS TABLE (item uuid, outcome text, detail text, waits bigint, of_kind bigint, timed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_variable
DECLARE
    now_us constant bigint := :schema.store_time();
    living uuid[];
    woken uuid[];
    parked uuid[];
    holders bigint[];
BEGIN
    SELECT array_agg(l.id) INTO living FROM :schema.lock_items(ids) l;
    WITH sent AS (
        INSERT INTO :schema.signals (execution_id, seq, name, data, key, sent_at, actor)
        SELECT s.execution_id, q.signals + row_number() OVER (PARTITION BY s.execution_id ORDER BY s.step), 'wake:' || s.step,
               s.attempt::text, s.due_at::text, now_us, actor
        FROM :schema.workflow_node_executions s JOIN :schema.workflow_execution_queue q ON q.id = s.execution_id
        WHERE s.execution_id = ANY (living) AND q.id = ANY (living) AND s.status = 'WAITING' AND s.due_at IS NOT NULL
          AND :schema.is_wanted_wait(wanted, s.signal, s.error_code)
          AND NOT EXISTS (SELECT 1 FROM :schema.signals w WHERE w.execution_id = s.execution_id AND w.name = 'wake:' || s.step
                                                            AND w.key = s.due_at::text)
        RETURNING execution_id
    ), counted AS (
        UPDATE :schema.workflow_execution_queue q
        SET signals = q.signals + c.n, signals_sent = CASE q.phase WHEN 2 THEN q.signals_sent ELSE q.signals + c.n END
        FROM (SELECT s.execution_id, count(*) AS n FROM sent s GROUP BY s.execution_id) c
        WHERE q.id = ANY (living) AND q.id = c.execution_id
        RETURNING q.id, q.phase, q.node_id, q.fence
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, fence, actor, reason)
        SELECT c.id, now_us, 'wake', c.fence, actor, why FROM counted c WHERE c.phase <> 3
    )
    SELECT array_agg(c.id), array_agg(c.id) FILTER (WHERE c.phase = 3), array_agg(c.node_id) FILTER (WHERE c.phase = 2 AND c.node_id > 0)
    INTO woken, parked, holders FROM counted c;
    IF parked IS NOT NULL THEN
        PERFORM :schema.wake_items(now_us, parked, actor, why);
    END IF;
    IF holders IS NOT NULL THEN
        PERFORM :schema.notify_nodes(holders);
    END IF;
    IF woken IS NOT NULL THEN
        PERFORM :schema.record_act(actor, why, 'wake', coalesce(subject, ids[1]::text), NULL, NULL, cardinality(woken));
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (woken) THEN 'changed' WHEN q.id IS NULL THEN 'refused'
                      WHEN (q.lane_id >> 31) & 1 = 1 THEN 'temporal' ELSE 'waits' END,
           coalesce(q.status, h.status, 'gone'), coalesce(w.waits, 0), coalesce(w.of_kind, 0), coalesce(w.timed, 0)
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id,
         LATERAL (SELECT count(*) AS waits, count(*) FILTER (WHERE :schema.is_wanted_wait(wanted, s.signal, s.error_code)) AS of_kind,
                         count(*) FILTER (WHERE :schema.is_wanted_wait(wanted, s.signal, s.error_code) AND s.due_at IS NOT NULL) AS timed
                  FROM :schema.workflow_node_executions s WHERE s.execution_id = u.id AND s.status = 'WAITING') w;
END
$$;
