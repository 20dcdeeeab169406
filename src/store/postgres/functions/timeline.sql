-- Identifies the rows of the store. It has the timeline of the server, which changes when a standby is promoted, and the file of the table
-- scheduler, which changes when a backup is loaded. After a change, transactions that were acknowledged may be missing, so a program must
-- forget the facts that it has read.
-- Locks: none. Callers: schedule(), schedule_load(), server_identity().
CREATE OR REPLACE FUNCTION :schema.timeline() RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || ' ' || pg_relation_filenode(':schema.scheduler'::regclass);
END
$$;
