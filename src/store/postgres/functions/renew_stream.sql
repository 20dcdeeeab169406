-- Moves the time until which entries of the stream are written. If it was not moved in time, entries may be missing: then the stream begins
-- anew under another `since`. Returns whether it does. Locks: stream_state. Caller: read_stream().
CREATE OR REPLACE FUNCTION :schema.renew_stream(keep bigint, margin bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now_us bigint;
    until  bigint;
BEGIN
    PERFORM 1 FROM :schema.stream_state s WHERE s.id = 1 FOR UPDATE;
    now_us := :schema.store_time();
    until := coalesce(pg_sequence_last_value(':schema.stream_written_until'), 0);
    PERFORM setval(':schema.stream_written_until', greatest(until, now_us + keep + margin));
    IF until - margin > now_us THEN
        RETURN false;
    END IF;
    UPDATE :schema.stream_state s SET since = greatest(now_us, s.since + 1), settled_xid = NULL WHERE s.id = 1;
    RETURN true;
END
$$;
