-- Transactions, schema and clock.

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- Microseconds since 1970; every statement that needs "now" calls this function.
-- name: read_clock
SELECT :schema.store_time();

-- Whether the schema is there, and whether it is ours.
-- name: find_schema
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace n WHERE n.nspname = :'schema'),
  EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :'schema' AND c.relname = 'schema_migrations'),
  EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :'schema');

-- The numbered schema files that are applied; the row of version 0 names the checksum of the functions and views.
-- name: list_applied
SELECT version, name FROM :schema.schema_migrations ORDER BY version;

-- name: listen
LISTEN :schema;

-- Tests a connection: any answer shows that the server is alive.
-- name: probe
SELECT 1;

-- A migration waits for a lock in short turns: every later request for the same table waits behind it. A turn is longer than
-- deadlock_timeout, after which the server's own vacuum gives up its lock.
-- name: begin_migration
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = '2s';
SET LOCAL idle_in_transaction_session_timeout = '15min';
SET LOCAL search_path = pg_catalog;
SET LOCAL standard_conforming_strings = on;
SET LOCAL check_function_bodies = on;

-- One migration at a time. Not an advisory lock, which any role can take: this one needs rights that nodes do not have. Readers of the
-- table do not wait.
-- name: lock_ledger
LOCK TABLE :schema.schema_migrations IN SHARE ROW EXCLUSIVE MODE;

-- A session that may be the one that a migration waits for: first the one that migrates, then the oldest transaction.
-- name: find_lock_holder
SELECT pg_catalog.format('process %s of the role "%s" (%s), in a transaction since %s, has a lock on "%s"', a.pid, a.usename,
                         coalesce(nullif(a.application_name, ''), 'without a name'),
                         pg_catalog.to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), c.relname), a.pid
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_class c ON c.oid = l.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE n.nspname = :'schema' AND l.granted AND l.pid <> pg_catalog.pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
ORDER BY c.relname = 'schema_migrations' DESC, a.xact_start LIMIT 1;

-- name: create_ledger
CREATE SCHEMA :schema;
CREATE TABLE :schema.schema_migrations (
    version    integer NOT NULL PRIMARY KEY,
    name       text    NOT NULL,
    program    text    NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The same in an empty schema that another role has made.
-- name: create_ledger_in_schema
CREATE TABLE :schema.schema_migrations (
    version    integer NOT NULL PRIMARY KEY,
    name       text    NOT NULL,
    program    text    NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: note_applied
INSERT INTO :schema.schema_migrations (version, name, program) VALUES ($1, $2, $3);

-- $1 checksum, $2 program
-- name: note_functions
INSERT INTO :schema.schema_migrations AS m (version, name, program) VALUES (0, $1, $2)
ON CONFLICT (version) DO UPDATE SET name = excluded.name, program = excluded.program, applied_at = clock_timestamp();

-- name: forget_functions
DELETE FROM :schema.schema_migrations WHERE version = 0;

-- name: defer_function_checks
SET LOCAL check_function_bodies = off;

-- A function of an older program whose result, names of arguments or defaults are others: the server does not replace it. It gets a name
-- that no program calls, so that ours can be made; the query replace_old_functions passes its rights on. $1 name of the function
-- name: move_function_aside
SELECT pg_catalog.format('ALTER FUNCTION %s RENAME TO %I', p.oid::pg_catalog.regprocedure, p.proname || ' (replaced)')
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = :'schema' AND p.proname = $1;

-- name: begin_function
SAVEPOINT function;

-- name: undo_function
ROLLBACK TO SAVEPOINT function;

-- name: end_function
RELEASE SAVEPOINT function;

-- Statements for functions of an older program, inside the transaction that has made ours. These have a name of ours and other
-- arguments, or the query move_function_aside has renamed them. The rights of each go to the new ones whose arguments begin with its own,
-- or to all of its name, and then it is dropped. Ours are of this transaction or of its savepoints, whose numbers are higher. Extensions
-- and the internals of the server are not in the schema.
-- name: replace_old_functions
WITH ours AS (
    SELECT p.oid, p.proargtypes::pg_catalog.oid[] AS types, p.proacl, p.proowner,
           CASE WHEN p.proname LIKE '% (replaced)' THEN pg_catalog.left(p.proname, -11) ELSE p.proname END AS proname,
           p.proname NOT LIKE '% (replaced)'
           AND pg_catalog.age(p.xmin) <= pg_catalog.age(pg_catalog.pg_current_xact_id()::pg_catalog.xid) AS is_new
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = :'schema'
), old AS (
    SELECT o.* FROM ours o WHERE NOT o.is_new AND EXISTS (SELECT 1 FROM ours f WHERE f.is_new AND f.proname = o.proname)
), heirs AS (
    SELECT o.oid AS old_oid, f.oid,
           f.types[0:pg_catalog.cardinality(o.types) - 1] = o.types[0:pg_catalog.cardinality(o.types) - 1] AS is_longer
    FROM old o JOIN ours f ON f.is_new AND f.proname = o.proname
)
SELECT s.statement FROM (
    SELECT 1, pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO %s%s', h.oid::pg_catalog.regprocedure,
                                CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(r.rolname) END,
                                CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM old o
    CROSS JOIN LATERAL pg_catalog.aclexplode(o.proacl) a
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
    JOIN heirs h ON h.old_oid = o.oid AND (h.is_longer OR NOT EXISTS (SELECT 1 FROM heirs l WHERE l.old_oid = o.oid AND l.is_longer))
    WHERE a.grantee <> o.proowner AND (a.grantee = 0 OR r.rolname IS NOT NULL)
    UNION ALL
    SELECT 2, pg_catalog.format('DROP FUNCTION %s', o.oid::pg_catalog.regprocedure) FROM old o
) s (step, statement) ORDER BY s.step, s.statement;

-- name: find_role
SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = $1;

-- The rights of a node and of the command line, as statements: rows, no right to change tables, and not the list of
-- migrations. Objects of later migrations are granted as well, as long as the same owner applies them.
-- name: grants
SELECT format(s.statement, $1) FROM (VALUES
  (1, 'GRANT USAGE ON SCHEMA :schema TO %I'),
  (2, 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA :schema TO %I'),
  (3, 'REVOKE INSERT, UPDATE, DELETE ON :schema.schema_migrations FROM %I'),
  (4, 'GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA :schema TO %I'),
  (5, 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA :schema TO %I'),
  (6, 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I'),
  (7, 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT USAGE, SELECT, UPDATE ON SEQUENCES TO %I'),
  (8, 'ALTER DEFAULT PRIVILEGES IN SCHEMA :schema GRANT EXECUTE ON FUNCTIONS TO %I')
) s(place, statement) ORDER BY s.place;

-- $1 role. An object that the role may not use in spite of the grants: to a caller without the right to give, GRANT only warns.
-- No row: the role has all rights.
-- name: find_missing_right
SELECT o.name FROM (
    SELECT 1 AS place, format('schema %s', n.nspname) AS name, has_schema_privilege($1, n.oid, 'USAGE') AS given
    FROM pg_namespace n WHERE n.nspname = :'schema'
    UNION ALL
    SELECT 2, format('table %s', c.relname),
           has_table_privilege($1, c.oid, 'SELECT') AND (c.relname = 'schema_migrations' OR
               has_table_privilege($1, c.oid, 'INSERT') AND has_table_privilege($1, c.oid, 'UPDATE')
               AND has_table_privilege($1, c.oid, 'DELETE'))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :'schema' AND c.relkind IN ('r', 'p', 'v')
    UNION ALL
    SELECT 3, format('sequence %s', c.relname),
           has_sequence_privilege($1, c.oid, 'USAGE') AND has_sequence_privilege($1, c.oid, 'SELECT')
           AND has_sequence_privilege($1, c.oid, 'UPDATE')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :'schema' AND c.relkind = 'S'
    UNION ALL
    SELECT 4, format('function %s', p.proname), has_function_privilege($1, p.oid, 'EXECUTE')
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = :'schema'
) o WHERE NOT o.given ORDER BY o.place, o.name LIMIT 1;

-- The tables of another system that an import reads, with the columns that it needs. $1 schema, $2 names of tables. A table
-- that is not there has no row.
-- name: find_source_tables
SELECT c.relname::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'),
  ' ' || (SELECT pg_catalog.string_agg(a.attname, ' ') FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || ' '
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = ANY ($2) AND c.relkind IN ('r', 'p', 'v', 'm', 'f');

-- The limits of a transaction that reads a source. Behind a pooler a connection has none of its own. $1, $2, $3 texts of
-- milliseconds.
-- name: limit_import
SELECT pg_catalog.set_config('statement_timeout', $1, true), pg_catalog.set_config('lock_timeout', $2, true),
  pg_catalog.set_config('idle_in_transaction_session_timeout', $3, true), pg_catalog.set_config('timezone', 'UTC', true);
