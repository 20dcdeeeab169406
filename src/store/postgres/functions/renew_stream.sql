-- Moves the time until which entries of the stream are written. If it was not moved in time, entries may be missing: then the stream begins
-- anew under another `since`. So it does on another server or timeline, where changes that were read may be lost and their numbers given
-- again. Returns whether it begins anew. Rows that have no position then get none.
--
-- A value of a sequence outlives a rollback, and a row does not. So the call that begins the stream does not move the time: the next one
-- does, when the new `since` is committed. It lies behind the time, until that is moved.
-- Locks: stream_state. Caller: read_stream().
CREATE OR REPLACE FUNCTION :schema.renew_stream(keep bigint, margin bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now_us bigint;
    until  bigint;
    state  :schema.stream_state;
BEGIN
    SELECT * INTO state FROM :schema.stream_state s WHERE s.id = 1 FOR UPDATE;
    now_us := :schema.store_time();
    until := coalesce(pg_sequence_last_value(':schema.stream_written_until'), 0);
    IF NOT :schema.stream_is_foreign(state)
       AND (until - margin > now_us OR state.settled_xid IS NULL AND state.since > greatest(until - margin, 0)) THEN
        PERFORM setval(':schema.stream_written_until', greatest(until, now_us + keep + margin));
        RETURN false;
    END IF;
    UPDATE :schema.stream_state s
    SET since = greatest(now_us, s.since + 1), timeline = :schema.timeline(), settled_xid = NULL, passing_seq = NULL, passing_xid = NULL,
        passed_seq = coalesce(pg_sequence_last_value(':schema.stream_entries_seq_seq'), 0)
    WHERE s.id = 1;
    RETURN true;
END
$$;
