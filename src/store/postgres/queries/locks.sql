-- Locks in the table of the Java library ShedLock. Columns without zone hold UTC; store time is turned into
-- such a timestamp exactly (a product below 2^53 microseconds). An equal time counts as expired, as there.

-- The first fault of the table, which another program may have made, and a hint; no row: the table is right.
-- name: find_lock_table_problem
WITH place AS (
    SELECT pg_catalog.to_regclass(':schema.shedlock') AS id, :'schema' || '.shedlock' AS name
), columns AS (
    SELECT a.attname, a.attnum, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type
    FROM pg_catalog.pg_attribute a JOIN place p ON a.attrelid = p.id WHERE a.attnum > 0 AND NOT a.attisdropped
)
SELECT o.problem, o.hint FROM (
    SELECT 1 AS stage, format('the table %s is missing', p.name) AS problem,
           format('CREATE TABLE %s (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, '
                  'locked_by varchar(255) NOT NULL); then give roles their rights again', p.name) AS hint
    FROM place p WHERE p.id IS NULL
    UNION ALL
    SELECT 2, format('the table %s has no column %s', p.name, w.name),
           'it has name, lock_until, locked_at and locked_by, as the library ShedLock defines'
    FROM place p CROSS JOIN unnest(ARRAY['name', 'lock_until', 'locked_at', 'locked_by']) w (name)
    WHERE p.id IS NOT NULL AND w.name NOT IN (SELECT c.attname FROM columns c)
    UNION ALL
    SELECT 3, format('the column %s of %s is %s: two holders would read it differently', c.attname, p.name, c.type),
           'make it timestamp without time zone, in UTC, while no lock is held'
    FROM place p CROSS JOIN columns c
    WHERE c.attname IN ('lock_until', 'locked_at') AND c.atttypid <> 'pg_catalog.timestamp'::pg_catalog.regtype
    UNION ALL
    SELECT 4, format('the column %s of %s is %s, not text', c.attname, p.name, c.type), 'make it varchar'
    FROM place p CROSS JOIN columns c
    WHERE c.attname IN ('name', 'locked_by')
      AND c.atttypid NOT IN ('pg_catalog.varchar'::pg_catalog.regtype, 'pg_catalog.text'::pg_catalog.regtype)
    UNION ALL
    SELECT 5, format('the table %s has no primary key: a lock would have two rows', p.name),
           format('ALTER TABLE %s ADD PRIMARY KEY (name)', p.name)
    FROM place p JOIN columns c ON c.attname = 'name'
    WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i
                      WHERE i.indrelid = p.id AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1
                        AND i.indkey[0] = c.attnum)
) o ORDER BY o.stage, o.problem LIMIT 1;

-- $1 name, $2 holder
-- name: lock_is_held
SELECT count(*) FROM :schema.shedlock l
WHERE l.name = $1 AND l.locked_by <> $2
  AND l.lock_until > timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond';

-- One statement; after a lost answer a repeated call succeeds, because the holder matches. $1 name, $2 holder, $3 at most
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

-- An operator releases the lock of this holder. $3 actor, $4 reason
-- name: release_lock_by_force
WITH freed AS (
    UPDATE :schema.shedlock l SET lock_until = t.now
    FROM (SELECT timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond' AS now OFFSET 0) t
    WHERE l.name = $1 AND l.locked_by = $2 AND l.lock_until > t.now
    RETURNING l.name, l.locked_by
), noted AS (
    SELECT :schema.record_act($3, $4, 'lock release', f.name, jsonb_build_object('holder', f.locked_by), NULL, 0) FROM freed f
)
SELECT count(*), (SELECT count(*) FROM noted) FROM freed;

-- An operator frees a lock, whichever holder has it.
-- name: free_lock
UPDATE :schema.shedlock l SET lock_until = t.now
FROM (SELECT timestamp '1970-01-01' + :schema.store_time() * interval '1 microsecond' AS now OFFSET 0) t
WHERE l.name = $1 AND l.lock_until > t.now;
