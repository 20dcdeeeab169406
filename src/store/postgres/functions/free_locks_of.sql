-- Frees the rows of `shedlock` that dead nodes hold. A node names itself in the holder (lock_request in store.h). The table may belong to
-- another program: a lock that it does not allow to change ends by its time.
-- Locks: the rows of shedlock. Caller: recover().
CREATE OR REPLACE FUNCTION :schema.free_locks_of(nodes bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_utc constant timestamp := :schema.time_of(:schema.store_time()) AT TIME ZONE 'UTC';
BEGIN
    UPDATE :schema.shedlock l SET lock_until = now_utc
    WHERE l.lock_until > now_utc AND l.locked_by LIKE ANY (ARRAY(SELECT '%:' || n || ':________________' FROM unnest(nodes) n));
EXCEPTION WHEN syntax_error_or_access_rule_violation OR lock_not_available THEN -- no table, column or right; or the row is locked
    NULL;
END
$$;
