-- The least id of a month. Callers: make_archive_months(), drop_archive_months().
CREATE OR REPLACE FUNCTION :schema.archive_month_start(month timestamp) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT rpad(lpad(to_hex((extract(epoch FROM month AT TIME ZONE 'UTC') * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;
