-- The timeline of the server. It changes when a standby is promoted or a backup is restored: then commits that were acknowledged may
-- be missing, and what a program has kept in memory is void.
-- Locks: none. Callers: schedule(), schedule_load().
CREATE OR REPLACE FUNCTION :schema.timeline() RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
END
$$;
