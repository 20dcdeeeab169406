-- The month in which an execution was enqueued, by the time in its id (UTC). A caller may give an id of any time. So all that come before
-- the first month lie in its tables: else one tenant could make thousands of tables, which slow down all readers.
-- Callers: make_archive_months(), drop_archive_months().
CREATE OR REPLACE FUNCTION :schema.archive_month(execution_id uuid) RETURNS timestamp
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT greatest(date_trunc('month', to_timestamp(('x' || left(replace(execution_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
                                        AT TIME ZONE 'UTC'), timestamp '2024-01-01')
$$;
