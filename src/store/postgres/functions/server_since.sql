-- The store time from which this server has had these rows; 0: from the beginning of the store. A server that was restarted, promoted or
-- restored from a backup may lack transactions that nodes have seen. Until a node has sent a heartbeat to it, the executions of that node
-- are unknown.
-- A stored time in the future is from before the clock was set back. It is replaced by the present one, because no heartbeat would be
-- later than it, and nothing could take the role until then.
-- Locks: none, but when the server is another one, or its clock was set back, the row of scheduler. Callers: take_role(), recover().
CREATE OR REPLACE FUNCTION :schema.server_since() RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    line constant text := :schema.timeline();
    started constant bigint := (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
    now_us constant bigint := :schema.store_time();
    known record;
BEGIN
    SELECT s.server_line, s.server_started, s.server_since INTO known
    FROM :schema.scheduler s WHERE s.partition BETWEEN 0 AND 0 ORDER BY s.partition DESC LIMIT 1; -- see has_epoch()
    IF known.server_line = line AND known.server_started = started AND known.server_since <= now_us THEN
        RETURN known.server_since;
    END IF;
    UPDATE :schema.scheduler s
    SET server_line = line, server_started = started,
        server_since = CASE WHEN s.server_line IS NULL THEN 0
                            WHEN s.server_line = line AND s.server_started <> started THEN least(started, now_us)
                            ELSE now_us END
    WHERE s.partition = 0
    RETURNING s.server_since INTO known.server_since;
    RETURN known.server_since;
END
$$;
