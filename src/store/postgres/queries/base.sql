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

-- name: list_applied
SELECT version, name FROM :schema.schema_migrations ORDER BY version;
