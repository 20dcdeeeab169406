-- As before, and what a node has or runs is not due: that time was of the wait before its claim. So says the library.
CREATE OR REPLACE FUNCTION :schema.why(execution_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer jsonb;
BEGIN
    PERFORM :schema.check_act(execution_id, NULL);
    SELECT l.living::jsonb || coalesce(:schema.place_of(execution_id)::jsonb, '{}')
           || coalesce(:schema.exclusive_lock(l.living ->> 'pending_reason'), '{}')
           || CASE WHEN l.living ->> 'status' IN ('CLAIMED', 'DISPATCHED') THEN '{"due_at": null}' ELSE '{}' END::jsonb
    INTO answer FROM (SELECT :schema.why_living(execution_id) AS living) l;
    IF answer IS NULL THEN
        SELECT :schema.execution_json(e)::jsonb || '{"because": "it has ended"}' INTO answer
        FROM :schema.executions e WHERE e.id = why.execution_id;
    END IF;
    IF answer IS NULL THEN
        PERFORM :schema.refuse('execution_not_found', format('there is no execution %s', execution_id),
                               'weir list shows what there is; ended ones are removed after the retention time');
    END IF;
    RETURN answer;
END
$$;

-- As before, but a cancel of what waits is no failure of it either: it leaves the error of the last one, as when a node ends it.
CREATE OR REPLACE FUNCTION :schema.cancel_items(ids uuid[], actor text, why text) RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    pending uuid[];
    held uuid[];
    lanes bigint[];
    runnables bigint[];
    waitings bigint[];
    cancelled_of integer[];
BEGIN
    SELECT array_agg(l.id) FILTER (WHERE l.phase <> 2), array_agg(l.id) FILTER (WHERE l.phase = 2) INTO pending, held
    FROM :schema.lock_items(ids) l;
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason, detail)
    SELECT u.id, now_us, 'cancel', actor, why, CASE WHEN u.id = ANY (held) THEN 'passed on to its engine' ELSE 'it had not started' END
    FROM unnest(pending || held) u (id);
    UPDATE :schema.workflow_execution_queue q SET cancel_at = now_us, cancel_sent = false
    WHERE q.id = ANY (held) AND q.cancel_at IS NULL;
    IF pending IS NOT NULL THEN
        WITH ended AS (
            SELECT m.lane_id, m.workspace_id, m.phase FROM :schema.move_to_history(pending, 'CANCELLED', NULL, NULL, now_us) m
        ), sums AS (
            SELECT e.lane_id, -count(*) FILTER (WHERE e.phase = 0) AS runnable, -count(*) FILTER (WHERE e.phase = 1) AS waiting
            FROM ended e GROUP BY e.lane_id
        )
        SELECT array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.waiting), (SELECT array_agg(e.workspace_id) FROM ended e)
        INTO lanes, runnables, waitings, cancelled_of FROM sums s;
        PERFORM :schema.change_lanes(lanes, runnables, waitings, NULL);
        UPDATE :schema.workspaces w SET cancelled = w.cancelled + c.n
        FROM (SELECT u.id, count(*) AS n FROM unnest(cancelled_of) u (id) GROUP BY u.id ORDER BY u.id) c WHERE w.id = c.id;
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (pending || held) THEN 'changed' ELSE 'refused' END, coalesce(h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_executions h ON h.id = u.id;
END
$$;
