-- The least id in the tables of a month; of the first month it is the least of all (archive_month()).
-- Callers: make_archive_months(), drop_archive_months().
CREATE OR REPLACE FUNCTION :schema.archive_month_start(month timestamp) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT rpad(CASE WHEN month > timestamp '2024-01-01'
                     THEN lpad(to_hex((extract(epoch FROM month AT TIME ZONE 'UTC') * 1000)::bigint), 12, '0') ELSE '' END, 32, '0')::uuid
$$;
