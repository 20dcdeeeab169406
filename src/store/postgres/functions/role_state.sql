-- The node that schedules, by the rows. is_free: a take of the role would succeed. A lease that is over does not make it free, because the
-- server's clock may have been set. A node takes the role after it has seen `renewals` unchanged for `lease` by its own clock.
-- session_ended: the session that took the role does not exist; unknown behind a pooler (false). For a session of another role PostgreSQL
-- may hide the start time; then the process id alone counts.
-- Locks: none. Callers: role(), inbox(), take_role(), status (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.role_state(OUT epoch bigint, OUT node_id bigint, OUT node text, OUT since bigint,
                                              OUT expires_at bigint, OUT now_us bigint, OUT is_free boolean,
                                              OUT session_ended boolean, OUT takeovers_hour bigint, OUT renewals bigint,
                                              OUT lease bigint, OUT server text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    hour_us constant bigint := 3600000000;
    lives boolean;
    pid integer;
    started timestamptz;
    takeovers bigint[];
BEGIN
    now_us := :schema.store_time();
    SELECT s.epoch, s.node_id, coalesce(n.name, ''), s.since, s.expires_at, s.backend_pid, s.backend_start, s.takeovers, s.lease,
           s.renewals,
           n.dead_at IS NULL AND n.stopped_at IS NULL AND n.recovered_at IS NULL AND n.id IS NOT NULL
    INTO epoch, node_id, node, since, expires_at, pid, started, takeovers, lease, renewals, lives
    FROM :schema.scheduler s LEFT JOIN :schema.nodes n ON n.id = s.node_id
    WHERE s.partition = 0;
    session_ended := pid IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM pg_stat_get_activity(pid) a WHERE coalesce(a.backend_start = started, true));
    is_free := node_id = 0 OR NOT lives OR session_ended;
    server := :schema.server_identity();
    takeovers_hour := (SELECT count(*) FROM unnest(takeovers) t (at) WHERE t.at > now_us - hour_us);
END
$$;
