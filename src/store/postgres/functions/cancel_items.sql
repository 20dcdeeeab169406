-- Cancels a set: items of which nothing can run (has_no_run()) end at once; of the others the cancel is requested, and their nodes pass it
-- to their engines.
-- A row per id: 'changed' or 'refused', and the state of an ended one ('gone' = it has not ended, or there is none).
-- Locks: lock_items(). Callers: cancel(), cancel_children(), cancel_items (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.cancel_items(ids uuid[], actor text, why text, subject text DEFAULT NULL)
RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    pending uuid[];
    begun   uuid[];
    left_alone uuid[];
    held    uuid[];
    nodes   bigint[];
BEGIN
    SELECT array_agg(l.id) FILTER (WHERE l.has_no_run), array_agg(l.id) FILTER (WHERE NOT l.has_no_run),
           array_agg(l.node_id) FILTER (WHERE NOT l.has_no_run), array_agg(l.id) FILTER (WHERE l.phase <> 2 AND l.has_run),
           array_agg(l.id) FILTER (WHERE l.has_no_run AND l.phase = 2)
    INTO pending, held, nodes, begun, left_alone
    FROM :schema.lock_items(ids) l;
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason, detail)
    SELECT u.id, now_us, 'cancel', actor, why, CASE WHEN u.id = ANY (held) THEN 'passed on to its engine'
                                                        WHEN u.id = ANY (left_alone) THEN 'no node had it'
                                                        WHEN u.id = ANY (begun) THEN 'it was waiting' ELSE 'it had not started' END
    FROM unnest(pending || held) u (id);
    IF held IS NOT NULL THEN
        UPDATE :schema.workflow_execution_queue q SET cancel_at = now_us, cancel_sent = false
        WHERE q.id = ANY (held) AND q.cancel_at IS NULL;
        PERFORM :schema.notify_nodes(nodes);
    END IF;
    IF pending IS NOT NULL THEN
        PERFORM :schema.move_to_history(pending, 'CANCELLED', NULL, NULL, now_us);
        PERFORM :schema.notify_news();
    END IF;
    IF pending IS NOT NULL OR held IS NOT NULL THEN
        PERFORM :schema.record_act(actor, why, 'cancel', coalesce(subject, ids[1]::text), NULL, NULL, cardinality(pending || held));
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (pending || held) THEN 'changed' ELSE 'refused' END, coalesce(h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_executions h ON h.id = u.id;
END
$$;
