-- Removes the monthly tables of the archive whose month is over and of which no archived execution is left, so the disk gets their room
-- back at once. `until`: an id of the first month to keep. Returns the number of months. A month that is in use stays for the next call:
-- a waiting removal would hold up all later readers, so it waits a tenth of a second.
-- Locks: the row of archive_state, so that no move fills a month meanwhile; the tables of the archive ACCESS EXCLUSIVE.
-- Caller: drop_archive_months (queries/archive.sql), in a transaction of its own.
CREATE OR REPLACE FUNCTION :schema.drop_archive_months(until uuid) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' SET enable_seqscan = off AS $$
DECLARE
    months  timestamp[];
    month   timestamp;
    kind    text;
    dropped integer := 0;
BEGIN
    SELECT array_agg(m.month) INTO months
    FROM (SELECT DISTINCT to_date(n.digits, 'YYYYMM')::timestamp AS month
          FROM (SELECT substring(c.relname FROM '[0-9]+$') AS digits
                FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent IN (':schema.archived_params'::regclass, ':schema.archived_steps'::regclass,
                                      ':schema.archived_attempts'::regclass, ':schema.archived_actions'::regclass,
                                      ':schema.archived_events'::regclass)
                OFFSET 0) n) m -- OFFSET: else a plan may read a date in the names of all tables of the database
    WHERE m.month < :schema.archive_month(until)
      AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h
                      WHERE h.id >= :schema.archive_month_start(m.month)
                        AND h.id < :schema.archive_month_start(m.month + interval '1 month') AND h.archived);
    IF months IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM :schema.archive_state s WHERE s.id = 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOREACH month IN ARRAY months LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM :schema.workflow_executions h -- a move that has ended meanwhile
                              WHERE h.id >= :schema.archive_month_start(month)
                                AND h.id < :schema.archive_month_start(month + interval '1 month') AND h.archived);
        FOREACH kind IN ARRAY '{params,steps,attempts,actions,events}'::text[] LOOP
            EXECUTE format('DROP TABLE IF EXISTS :schema.archived_%s_%s', kind, to_char(month, 'YYYYMM'));
        END LOOP;
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;

REVOKE ALL ON FUNCTION :schema.drop_archive_months(uuid) FROM PUBLIC;
