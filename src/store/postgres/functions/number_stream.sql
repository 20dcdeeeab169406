-- Gives positions to committed rows of the stream that have none, in the order of their seq, at most `most` rows. A transaction that sees
-- the change of another one has a greater seq, so the changes of an execution keep their order. Returns whether rows may be left.
-- Locks: stream_state, if there are such rows. Caller: read_stream().
CREATE OR REPLACE FUNCTION :schema.number_stream(most integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    last    bigint;
    numbered integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM :schema.stream_entries e WHERE e.position IS NULL) THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM :schema.stream_state s WHERE s.id = 1 FOR UPDATE;
    last := coalesce(pg_sequence_last_value(':schema.stream_positions'), 0);
    WITH fresh AS (
        SELECT f.seq, sum(f.size) OVER (ORDER BY f.seq) AS upto
        FROM (SELECT e.seq, e.size FROM :schema.stream_entries e WHERE e.position IS NULL ORDER BY e.seq LIMIT most) f
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
