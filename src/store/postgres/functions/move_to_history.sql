-- Ends items that the caller has locked, in any phase. Moves them to the history and writes one row of news for each node that held some of
-- them (usually one). Unfinished steps of items that were taken over from an earlier claim are closed. Returns how many were moved.
--   code, message  NULL = the error of the row stays
-- Callers: cancel_items(), hand_over(), fail_orphans(), end_replaced(), record_give_backs(), remove_workspace(), stop_node().
CREATE OR REPLACE FUNCTION :schema.move_to_history(ids uuid[], end_state text, code text, message text, now_us bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    taken_over uuid[];
    last_fences bigint[];
    moved integer;
BEGIN
    SELECT array_agg(q.id), array_agg(q.fence) INTO taken_over, last_fences
    FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids) AND q.interruptions > 0;
    IF taken_over IS NOT NULL THEN
        PERFORM :schema.close_steps(taken_over, last_fences, now_us);
    END IF;
    WITH ended AS (
        DELETE FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids) RETURNING q.*
    ), history AS (
        INSERT INTO :schema.workflow_executions
            (id, lane_id, definition_id, run_at, fence, node_id, created_at, claimed_at, dispatched_at, finished_at, workspace_id,
             starts_refused, deferrals, handovers, interruptions, priority, has_params, status, idempotency_key, traceparent, retry_of,
             error_code, error, woken_at, parked_fence)
        SELECT e.id, e.lane_id, e.definition_id, e.run_at, e.fence, e.node_id, e.created_at, e.claimed_at, e.dispatched_at, now_us,
               e.workspace_id, e.starts_refused, e.deferrals, e.handovers, e.interruptions, e.priority, e.has_params, end_state,
               e.idempotency_key, e.traceparent, e.retry_of, coalesce(code, e.error_code), coalesce(message, e.error),
               e.woken_at, e.parked_fence
        FROM ended e
    ), left_set AS (
        SELECT f.node_id, array_agg(f.fence) AS fences, array_agg(f.items) AS items
        FROM (SELECT e.node_id, e.fence, count(*)::integer AS items FROM ended e WHERE e.phase = 2 GROUP BY e.node_id, e.fence) f
        GROUP BY f.node_id
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, lanes, runnable, waiting, held, parked, completed, failed, cancelled, fences,
                                  left_fences)
        SELECT now_us, 4, s.node_id, array_agg(s.lane_id), array_agg(-s.runnable), array_agg(-s.waiting), array_agg(-s.held),
               CASE WHEN sum(s.parked) > 0 THEN array_agg(-s.parked) END,
               CASE end_state WHEN 'COMPLETED' THEN array_agg(s.ended) END, CASE end_state WHEN 'FAILED' THEN array_agg(s.ended) END,
               CASE end_state WHEN 'CANCELLED' THEN array_agg(s.ended) END, (SELECT l.fences FROM left_set l WHERE l.node_id = s.node_id),
               (SELECT l.items FROM left_set l WHERE l.node_id = s.node_id)
        FROM (SELECT e.node_id, e.lane_id, count(*)::integer AS ended, (count(*) FILTER (WHERE e.phase = 0))::integer AS runnable,
                     (count(*) FILTER (WHERE e.phase = 1))::integer AS waiting, (count(*) FILTER (WHERE e.phase = 2))::integer AS held,
                     (count(*) FILTER (WHERE e.phase = 3))::integer AS parked
              FROM ended e GROUP BY e.node_id, e.lane_id) s
        GROUP BY s.node_id
    )
    SELECT count(*) INTO moved FROM ended;
    IF moved > 0 AND EXISTS (SELECT 1 FROM :schema.hooks) THEN
        PERFORM :schema.write_hook_events(now_us, ids);
    END IF;
    IF moved > 0 AND EXISTS (SELECT 1 FROM :schema.child_steps) THEN
        PERFORM :schema.note_child_ends(ids);
    END IF;
    IF moved > 0 AND :schema.stream_is_read(now_us) THEN
        PERFORM :schema.write_stream(now_us, '{end}', ids);
    END IF;
    RETURN moved;
END
$$;
