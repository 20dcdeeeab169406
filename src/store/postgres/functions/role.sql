-- The role of the scheduler (enum role_act in store.h).
--   act        read, take, leave
--   own_epoch  of leave
--   gone_node  of take: a node without its processes, as the caller has seen on its machine; 0 = none
--   silent_epoch, silent_renewals  of take: the holder that the caller has seen without a renewal for the lease of the role, by its own
--              clock; 0, 0 = none
--   known_server, known_for  of take: the server_identity() that the caller has seen for so many microseconds, by its own clock
--   is_pooled  the session proves nothing about its node: a pooler is between
--
-- One row: outcome ('ok', or of a take that of take_role()), then the columns of role_state() after the act.
--
-- A take increments the epoch under an exclusive lock of the row. An assignment of the former epoch holds the row FOR SHARE, so the
-- take waits for its commit, and every later one finds another epoch. A former scheduler that was frozen while it received rows keeps
-- that lock; once the role is free its session is terminated, and the next take succeeds.
-- Locks: the row of scheduler; take also the row of its node. Caller: postgres_role().
CREATE OR REPLACE FUNCTION :schema.role(act text, caller bigint, own_epoch bigint, lease bigint, gone_node bigint, reason text,
                                        is_pooled boolean, silent_epoch bigint, silent_renewals bigint, known_server text,
                                        known_for bigint)
RETURNS TABLE (outcome text, epoch bigint, node_id bigint, node text, since bigint, expires_at bigint, now_us bigint, is_free boolean,
               takeovers_hour bigint, renewals bigint, own_lease bigint, server text)
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
DECLARE
    own_pid constant integer := CASE WHEN is_pooled OR act <> 'take' THEN NULL ELSE pg_backend_pid() END;
    own_start constant timestamptz := (SELECT a.backend_start FROM pg_stat_get_activity(own_pid) a WHERE own_pid IS NOT NULL);
BEGIN
    outcome := 'ok';
    IF act = 'take' THEN
        outcome := :schema.take_role(caller, lease, gone_node, reason, own_pid, own_start, silent_epoch, silent_renewals,
                                      known_server, known_for);
    ELSIF act = 'leave' THEN
        UPDATE :schema.scheduler s
        SET node_id = 0, since = :schema.store_time(), backend_pid = NULL, backend_start = NULL
        WHERE s.partition = 0 AND s.epoch = own_epoch AND s.node_id = caller;
        IF FOUND AND current_setting('weir.notify', true) IS DISTINCT FROM 'off' AND pg_notification_queue_usage() < 0.5 THEN
            PERFORM pg_notify(:'schema', 'role');
        END IF;
    END IF;
    RETURN QUERY
    SELECT outcome, s.epoch, s.node_id, s.node, s.since, s.expires_at, s.now_us, s.is_free, s.takeovers_hour,
           s.renewals, s.lease, s.server
    FROM :schema.role_state() s;
END
$$;
