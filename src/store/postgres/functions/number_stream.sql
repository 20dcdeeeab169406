-- Gives positions to committed rows of the stream that have none, in the order of their seq, at most `most` rows. A transaction that sees
-- the change of another one has a greater seq, so the changes of an execution keep their order. Returns whether rows may be left.
--
-- Rows up to passed_seq are not read: they have positions, or the stream has begun anew since. Without it each call would pass the dead
-- index entries of all rows that got a position, until a vacuum removes them. When at least `step` rows are behind it, two calls move it:
--   1. The first call stores the last seq, and its own transaction id. Each row up to that seq is of a transaction with a smaller id.
--   2. The second call moves passed_seq to the stored seq, when all transactions up to that id have ended and their rows have positions.
-- Locks: stream_state, if there is something to do. Caller: read_stream().
CREATE OR REPLACE FUNCTION :schema.number_stream(most integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    step constant bigint := 10000;
    last_seq constant bigint := coalesce(pg_sequence_last_value(':schema.stream_entries_seq_seq'), 0);
    is_first constant boolean := pg_current_xact_id_if_assigned() IS NULL;
    state    :schema.stream_state;
    last     bigint;
    numbered integer;
BEGIN
    SELECT * INTO state FROM :schema.stream_state s WHERE s.id = 1;
    IF state.passing_xid IS NULL AND is_first AND last_seq - state.passed_seq >= step THEN
        UPDATE :schema.stream_state s SET passing_seq = last_seq, passing_xid = pg_current_xact_id()
        WHERE s.id = 1 AND s.passing_xid IS NULL AND s.since = state.since;
    ELSIF state.passing_xid < pg_snapshot_xmin(pg_current_snapshot()) AND NOT EXISTS (
        SELECT 1 FROM :schema.stream_entries e
        WHERE e.position IS NULL AND e.seq > state.passed_seq AND e.seq <= state.passing_seq) THEN
        UPDATE :schema.stream_state s SET passed_seq = s.passing_seq, passing_seq = NULL, passing_xid = NULL
        WHERE s.id = 1 AND s.passing_xid = state.passing_xid;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM :schema.stream_entries e WHERE e.position IS NULL AND e.seq > state.passed_seq) THEN
        RETURN false;
    END IF;
    SELECT * INTO state FROM :schema.stream_state s WHERE s.id = 1 FOR UPDATE;
    last := coalesce(pg_sequence_last_value(':schema.stream_positions'), 0);
    WITH fresh AS (
        SELECT f.seq, sum(f.size) OVER (ORDER BY f.seq) AS upto
        FROM (SELECT e.seq, e.size FROM :schema.stream_entries e WHERE e.position IS NULL AND e.seq > state.passed_seq
              ORDER BY e.seq LIMIT most) f
    ), given AS (
        UPDATE :schema.stream_entries e SET position = last + f.upto FROM fresh f WHERE e.seq = f.seq RETURNING e.position
    )
    SELECT max(g.position), count(*) INTO last, numbered FROM given g;
    IF numbered > 0 THEN
        PERFORM setval(':schema.stream_positions', last);
    END IF;
    RETURN numbered = most;
END
$$;
