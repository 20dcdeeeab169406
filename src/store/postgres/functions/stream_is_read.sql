-- Whether changes are to be added to the stream. It is asked after the first write of a transaction: see read_stream(), step 3.
-- Callers: the functions that change states; purge_stream (queries/stream.sql).
CREATE OR REPLACE FUNCTION :schema.stream_is_read(now_us bigint) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(pg_catalog.pg_sequence_last_value(':schema.stream_written_until') > now_us, false)
$$;
