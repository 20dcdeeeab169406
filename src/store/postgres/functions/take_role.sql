-- Takes the role of the scheduler for a node, under a new epoch. Parameters: see role().
-- Returns 'ok'. 'conflict': another node has the role. 'stale_fence': the node does not live. 'unheard': a node has sent no heartbeat to
-- this server yet (server_identity()), so its executions are not known.
--
-- 1. Lock the row of scheduler. A round has it until its commit, so no assignment of the former epoch commits after the take.
-- 2. If the lock does not come, a frozen scheduler may hold it. If the role is free, its session is terminated; the next take succeeds.
-- 3. The node must live. Its row is locked, so recovery does not declare it dead before the commit.
-- 4. The role must be free, or belong to this node or to a node without its processes. It may also belong to one that has not renewed it
--    since the caller began to watch it.
-- 5. After a restart, promotion or restore every live node must have sent a heartbeat. Or the caller must have seen this server for the
--    lease of that node (ten seconds at most). The rows may lack its claims. A node that lives sends a heartbeat as soon as it has lost a
--    connection.
-- 6. Fences move beyond the time of the store, so that a restored store gives out none twice.
-- 7. The epoch grows by one, and the session is stored with it.
-- Locks: the row of scheduler exclusively, the row of the node FOR KEY SHARE. Caller: role().
CREATE OR REPLACE FUNCTION :schema.take_role(caller bigint, lease bigint, gone_node bigint, reason text, own_pid integer,
                                             own_start timestamptz, silent_epoch bigint, silent_renewals bigint,
                                             known_server text, known_for bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    takeovers_kept constant integer := 100;
    awaited_most constant bigint := 10000000;
    holder record;
    now_us bigint;
    server constant text := :schema.server_identity();
    heard_for constant bigint := CASE WHEN known_server = server THEN known_for ELSE 0 END;
BEGIN
    BEGIN
        PERFORM 1 FROM :schema.scheduler s WHERE s.partition = 0 FOR UPDATE;
    EXCEPTION WHEN lock_not_available THEN
        PERFORM pg_terminate_backend(s.backend_pid)
        FROM :schema.scheduler s
        CROSS JOIN LATERAL pg_stat_get_activity(s.backend_pid) a
        CROSS JOIN :schema.role_state() r
        WHERE s.partition = 0 AND s.backend_pid <> pg_backend_pid() AND a.backend_start = s.backend_start
          AND (r.is_free OR r.node_id = gone_node OR (r.epoch, r.renewals) = (silent_epoch, silent_renewals))
          AND pg_has_role(a.usesysid, 'MEMBER');
        RETURN 'conflict';
    END;
    PERFORM 1 FROM :schema.nodes n
    WHERE n.id = caller AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.recovered_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN 'stale_fence';
    END IF;
    SELECT * INTO holder FROM :schema.role_state();
    IF NOT (holder.is_free OR holder.node_id IN (caller, gone_node)
            OR (holder.epoch, holder.renewals) = (silent_epoch, silent_renewals)) THEN
        RETURN 'conflict';
    END IF;
    now_us := :schema.store_time();
    IF EXISTS (SELECT 1 FROM :schema.nodes n WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL
                                               AND n.heard_by <> server AND least(n.lease, awaited_most) > heard_for) THEN
        RETURN 'unheard';
    END IF;
    PERFORM setval(':schema.fences', greatest(nextval(':schema.fences'), now_us));
    UPDATE :schema.scheduler s
    SET epoch = s.epoch + 1, renewals = s.renewals + 1, node_id = caller, since = now_us,
        expires_at = now_us + take_role.lease, lease = take_role.lease,
        lock_awaited_at = 0, why = reason,
        backend_pid = own_pid, backend_start = own_start,
        takeovers = (s.takeovers || now_us)[greatest(1, cardinality(s.takeovers) + 2 - takeovers_kept):]
    WHERE s.partition = 0;
    RETURN 'ok';
END
$$;
