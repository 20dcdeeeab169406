-- Identifies this server and its rows: timeline(), and the start of the server. A server that was restarted, promoted or restored from a
-- backup may lack transactions that nodes have seen, so observations that were made before a change prove nothing. The time of the
-- start is never compared with another time. A standby, where no node works, has none.
-- Locks: none. Callers: role_state(), take_role(), recover(), start_node and beat_node (queries/nodes.sql).
CREATE OR REPLACE FUNCTION :schema.server_identity() RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN '';
    END IF;
    RETURN :schema.timeline() || ' ' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
END
$$;
