-- Whether the stream was begun on another server or timeline: then its positions and transaction ids mean nothing here. A row that was
-- read has no transaction id behind the present snapshot otherwise. Locks: none. Callers: renew_stream(), read_stream().
CREATE OR REPLACE FUNCTION :schema.stream_is_foreign(state :schema.stream_state) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN state.timeline <> :schema.timeline() OR coalesce(state.settled_xid > pg_snapshot_xmax(pg_current_snapshot()), false);
END
$$;
