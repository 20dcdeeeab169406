-- Renews the lease of the role; step 1 of schedule().
--   own_node, own_epoch  the scheduler
--   lease                microseconds
--   awaits_lock          a scheduler with dispatch.exclusive has work, and another holder has the lock
-- Returns false when another epoch has the role; then nothing is written.
--
-- 1. The update is conditional on node and epoch: a scheduler that was frozen cannot renew a role that another node took.
-- 2. The lock of the row holds until the end of the transaction, as that of has_epoch() with locks: a takeover waits.
-- 3. The session is stored again, because a load may run on another one than the take. Behind a pooler none was stored, and none is.
-- Locks: the row of scheduler. Caller: schedule().
CREATE OR REPLACE FUNCTION :schema.renew_role(own_node bigint, own_epoch bigint, lease bigint, awaits_lock boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE :schema.scheduler s
    SET renewals = s.renewals + 1, expires_at = :schema.store_time() + renew_role.lease, lease = renew_role.lease,
        lock_awaited_at = CASE WHEN NOT awaits_lock THEN 0 WHEN s.lock_awaited_at = 0 THEN :schema.store_time() ELSE s.lock_awaited_at END,
        backend_pid = CASE WHEN s.backend_pid IS NULL THEN NULL ELSE pg_backend_pid() END,
        backend_start = CASE WHEN s.backend_pid = pg_backend_pid() THEN s.backend_start
                             WHEN s.backend_pid IS NOT NULL THEN (SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) a)
                        END
    WHERE s.partition = 0 AND s.epoch = own_epoch AND s.node_id = own_node;
    RETURN FOUND;
END
$$;
