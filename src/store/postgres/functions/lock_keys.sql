-- Locks the known keys of a set in one order, before its requests are handled in theirs. So two sets with the same keys wait for each
-- other, and do not end each other. The arrays have a workspace and a key for each request with a mode. A new key has no row
-- yet. Returns the number of them. Locks: the keys. Caller: lock_keys (queries/enqueue.sql).
CREATE OR REPLACE FUNCTION :schema.lock_keys(workspaces text[], keys text[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    locked integer;
BEGIN
    PERFORM 1
    FROM unnest(workspaces, keys) u (workspace, key)
    JOIN :schema.workspaces w ON w.name = u.workspace
    JOIN :schema.idempotency_keys k ON k.workspace_id = w.id AND k.key = u.key
    ORDER BY k.workspace_id, k.key COLLATE "C" FOR UPDATE OF k;
    GET DIAGNOSTICS locked = ROW_COUNT;
    RETURN locked;
END
$$;
