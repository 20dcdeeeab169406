-- For transactions with a fixed snapshot (REPEATABLE READ, SERIALIZABLE). It looks for changes of transactions that this one cannot see:
-- one of the ids is in the history, or one of `firsts` was retried. Then it fails with 40001. The unique indexes are probed by rows that
-- are deleted again. `firsts`: the execution that each one retries; '{}' = of nothing.
-- Locks: none, since the rows are its own. It waits for a transaction that inserts one of the same ids.
-- Callers: enqueue_one(), retry_executions(), undo_ended_items().
CREATE OR REPLACE FUNCTION :schema.refuse_unseen_ends(ids uuid[], firsts uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RETURN;
    END IF;
    INSERT INTO :schema.workflow_executions
        (id, lane_id, definition_id, run_at, fence, node_id, created_at, finished_at, workspace_id, starts_refused, deferrals, handovers,
         interruptions, priority, has_params, status, retry_of)
    SELECT u.id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 'CANCELLED', u.first FROM unnest(ids, firsts) u (id, first)
    ON CONFLICT DO NOTHING;
    DELETE FROM :schema.workflow_executions h WHERE h.id = ANY (ids) AND h.lane_id = 0;
END
$$;
