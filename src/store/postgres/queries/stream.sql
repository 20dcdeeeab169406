-- The stream (functions/read_stream.sql).

-- $1 since, $2 number, $3 entries, $4 rows to number, $5 keep, $6 margin
-- name: read_stream
SELECT number, at, kind, id, workspace_id, workspace, workflow, is_reset, is_settling, more
FROM :schema.read_stream($1, $2, $3, $4, $5, $6);

-- At most $3 rows: first those that get no position, because the stream has begun anew since, or has lapsed and will begin anew. Then of
-- the oldest ones those that are older than $1, or not behind the last position less $2. Rows that another node removes are not awaited.
-- name: purge_stream
WITH unneeded AS (
    SELECT e.seq FROM :schema.stream_entries e
    WHERE e.position IS NULL
      AND e.seq <= (SELECT CASE WHEN :schema.stream_is_read(:schema.store_time()) THEN s.passed_seq ELSE 9223372036854775807 END
                    FROM :schema.stream_state s WHERE s.id = 1)
    ORDER BY e.seq LIMIT $3 FOR UPDATE SKIP LOCKED
), oldest AS (
    SELECT e.seq, e.position, e.at FROM :schema.stream_entries e WHERE e.position IS NOT NULL ORDER BY e.position
    LIMIT $3 - (SELECT count(*) FROM unneeded)
), old AS (
    SELECT e.seq, e.position FROM oldest o JOIN :schema.stream_entries e ON e.seq = o.seq
    WHERE o.at < :schema.store_time() - $1 OR o.position <= pg_sequence_last_value(':schema.stream_positions') - $2
    FOR UPDATE OF e SKIP LOCKED
), removed AS (
    DELETE FROM :schema.stream_entries e USING (SELECT o.seq FROM old o UNION ALL SELECT u.seq FROM unneeded u) o WHERE e.seq = o.seq
    RETURNING e.seq
), noted AS (
    UPDATE :schema.stream_state s SET purged_to = greatest(s.purged_to, (SELECT max(o.position) FROM old o))
    WHERE s.id = 1 AND EXISTS (SELECT 1 FROM old)
)
SELECT count(*) FROM removed;
