-- Enqueues FAILED and CANCELLED executions of a set again, each as a new execution with the id at its place in new_ids. The ended rows are
-- not changed. A row per id, with the outcome:
--   'changed'              it was enqueued
--   'retried'              it was before; the detail is the other new id
--   'workspace_not_found'  its workspace is deleted
--   'workflow_disabled'    or deleted
--   'invalid_argument'     steps are to be kept, but the workflow has none, or no from_step
--   'refused'              by its state. The detail of these four is its state
--
-- keeps_finished: the finished steps are kept, but
-- from_step and those that need it. The new row then looks like that of an execution that was parked: its next claim reads its steps, and
-- no attempt of them is under way.
-- Locks: the rows of the history by ascending id, so that of two retries of one execution the second sees the first.
-- Callers: retry_one(), retry_executions (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.retry_executions(ids uuid[], new_ids uuid[], actor text, why text, subject text DEFAULT NULL,
                                                    keeps_finished boolean DEFAULT false, from_step text DEFAULT NULL)
RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    retried uuid[];
    made    uuid[];
BEGIN
    PERFORM 1 FROM :schema.workflow_executions h WHERE h.id = ANY (ids) ORDER BY h.id FOR NO KEY UPDATE;
    WITH copied AS (
        INSERT INTO :schema.workflow_execution_queue
            (id, lane_id, definition_id, rank, run_at, created_at, workspace_id, priority, phase, has_params, status, idempotency_key,
             traceparent, retry_of, interruptions, interruptions_at_park)
        SELECT u.new_id, h.lane_id, h.definition_id, :schema.item_rank(now_us, h.priority), now_us, now_us, h.workspace_id, h.priority,
               0, h.has_params, 'PENDING', h.idempotency_key, h.traceparent, h.id, keeps_finished::integer, keeps_finished::integer
        FROM unnest(ids, new_ids) u (id, new_id) JOIN :schema.workflow_executions h ON h.id = u.id
        JOIN :schema.workspaces w ON w.id = h.workspace_id
        JOIN :schema.workflow_definitions d ON d.id = h.definition_id AND d.state = 0
        WHERE h.status <> 'COMPLETED' AND (NOT keeps_finished OR :schema.has_step(h.definition_id, from_step))
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue r WHERE r.retry_of = h.id)
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions r WHERE r.retry_of = h.id)
        ON CONFLICT DO NOTHING
        RETURNING id, lane_id, rank, has_params, retry_of
    ), params AS (
        INSERT INTO :schema.execution_params (id, params)
        SELECT c.id, p.params FROM copied c JOIN :schema.all_params p ON p.id = c.retry_of WHERE c.has_params
    ), feed AS (
        INSERT INTO :schema.news (at, kind, lanes, runnable, least_rank)
        SELECT now_us, 1, array_agg(s.lane_id), array_agg(s.n), array_agg(s.least_rank)
        FROM (SELECT c.lane_id, count(*)::integer AS n, min(c.rank) AS least_rank FROM copied c GROUP BY c.lane_id) s
        HAVING count(*) > 0
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason, detail)
        SELECT c.retry_of, now_us, 'retry', actor, why, c.id::text FROM copied c
    )
    SELECT array_agg(c.retry_of), array_agg(c.id) INTO retried, made FROM copied c;
    IF made IS NOT NULL THEN
        IF keeps_finished THEN
            PERFORM :schema.keep_steps(retried, made, from_step);
        END IF;
        INSERT INTO :schema.execution_labels (execution_id, workspace_id, name, value)
        SELECT u.new_id, l.workspace_id, l.name, l.value
        FROM unnest(retried, made) u (id, new_id) JOIN :schema.execution_labels l ON l.execution_id = u.id;
        PERFORM :schema.refuse_unseen_ends(made, retried);
        PERFORM :schema.notify_news();
        IF :schema.stream_is_read(now_us) THEN
            PERFORM :schema.write_stream(now_us, '{enqueue}', made);
        END IF;
        PERFORM :schema.record_act(actor, why, 'retry', coalesce(subject, ids[1]::text), NULL, NULL, cardinality(made));
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (retried) THEN 'changed' WHEN r.id IS NOT NULL THEN 'retried'
                      WHEN h.status IS NULL OR h.status = 'COMPLETED' THEN 'refused'
                      WHEN NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = h.workspace_id) THEN 'workspace_not_found'
                      WHEN NOT EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.id = h.definition_id AND d.state = 0)
                          THEN 'workflow_disabled'
                      WHEN keeps_finished AND NOT :schema.has_step(h.definition_id, from_step) THEN 'invalid_argument'
                      ELSE 'refused' END,
           coalesce(r.id::text, q.status, h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id
    LEFT JOIN LATERAL (SELECT x.id FROM :schema.workflow_execution_queue x WHERE x.retry_of = u.id
                       UNION ALL SELECT y.id FROM :schema.workflow_executions y WHERE y.retry_of = u.id LIMIT 1) r ON true;
END
$$;
