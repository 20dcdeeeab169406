-- Locks of the specification, in the table of the Java library ShedLock. Columns without zone hold UTC; store time is turned into
-- such a timestamp exactly (a product below 2^53 microseconds). An equal time counts as expired, as there.

-- What the columns of times are, to refuse those that two sides would read differently.
-- name: lock_columns
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypid = 'pg_catalog.timestamp'::pg_catalog.regtype
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = pg_catalog.to_regclass(':schema.shedlock') AND a.attname IN ('lock_until', 'locked_at') AND NOT a.attisdropped
ORDER BY a.attname;

-- $1 name, $2 holder
-- name: lock_is_held
SELECT count(*) FROM :schema.shedlock l
WHERE l.name = $1 AND l.locked_by <> $2
  AND l.lock_until > timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond';

-- One statement; "perhaps ours" after a lost answer is ours when the holder matches. $1 name, $2 holder, $3 at most
-- name: take_lock
INSERT INTO :schema.shedlock AS l (name, lock_until, locked_at, locked_by)
SELECT $1, t.now + $3 * interval '1 microsecond', t.now, $2
FROM (SELECT timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond' AS now) t
ON CONFLICT (name) DO UPDATE
SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by
WHERE l.lock_until <= excluded.locked_at OR l.locked_by = excluded.locked_by;

-- name: extend_lock
UPDATE :schema.shedlock l SET lock_until = t.now + $3 * interval '1 microsecond'
FROM (SELECT timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond' AS now OFFSET 0) t
WHERE l.name = $1 AND l.locked_by = $2 AND l.lock_until > t.now;

-- $3 at least
-- name: release_lock
UPDATE :schema.shedlock l SET lock_until = greatest(t.now, l.locked_at + $3 * interval '1 microsecond')
FROM (SELECT timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond' AS now OFFSET 0) t
WHERE l.name = $1 AND l.locked_by = $2 AND l.lock_until > t.now;

-- An operator frees a lock whose holder is gone.
-- name: free_lock
UPDATE :schema.shedlock l SET lock_until = t.now
FROM (SELECT timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond' AS now OFFSET 0) t
WHERE l.name = $1 AND l.lock_until > t.now;
