-- Identifies the rows of the store. It has the timeline of the server, which changes when a standby is promoted, and the file of the table
-- scheduler, which changes when a backup is loaded. After a change, transactions that were acknowledged may be missing, so a program must
-- forget the facts that it has read.
-- Locks: none. It is one expression, which the server puts into the calling statement, because a call costs much after a pause.
-- Callers: schedule(), schedule_load(), server_identity(), renew_stream(), schedule_lone(), stream_is_foreign().
CREATE OR REPLACE FUNCTION :schema.timeline() RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) OPERATOR(pg_catalog.||) ' '
           OPERATOR(pg_catalog.||) pg_catalog.pg_relation_filenode(':schema.scheduler'::pg_catalog.regclass)
$$;
