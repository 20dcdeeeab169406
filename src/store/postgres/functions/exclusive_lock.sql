-- The holder of the lock processExecutionQueue, without which a node with dispatch.exclusive does not schedule. For an item that only waits
-- for the scheduler. NULL when the lock is free, and without a table that can be read (the table may be another program's).
-- Caller: why().
CREATE OR REPLACE FUNCTION :schema.exclusive_lock(pending_reason text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('lock_holder', l.locked_by, 'lock_until', :schema.rfc3339(l.lock_until AT TIME ZONE 'UTC'))
            FROM :schema.shedlock l
            WHERE pending_reason IN ('ready', 'no_scheduler') AND l.name = 'processExecutionQueue'
              AND l.lock_until > :schema.time_of(:schema.store_time()) AT TIME ZONE 'UTC');
EXCEPTION WHEN syntax_error_or_access_rule_violation THEN -- no table, no column, no right
    RETURN NULL;
END
$$;
