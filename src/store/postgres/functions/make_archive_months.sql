-- Makes the monthly tables of the archive that these executions need. Its owner owns the tables of the archive, so a node needs no right to
-- make tables. A table is made alone and attached, which stops no reader; CREATE TABLE ... PARTITION OF would lock them out.
-- Locks: the tables of the archive SHARE UPDATE EXCLUSIVE. Raises 55P03 when a vacuum or analyze of them keeps it waiting.
-- Caller: archive_items().
CREATE OR REPLACE FUNCTION :schema.make_archive_months(items uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    month timestamp;
    kind  text;
BEGIN
    FOR month IN SELECT DISTINCT :schema.archive_month(u.id) FROM unnest(items) u (id) LOOP
        FOREACH kind IN ARRAY '{params,steps,attempts,actions,events}'::text[] LOOP
            IF to_regclass(format(':schema.archived_%s_%s', kind, to_char(month, 'YYYYMM'))) IS NULL THEN
                EXECUTE format('CREATE TABLE :schema.archived_%1$s_%2$s (LIKE :schema.archived_%1$s INCLUDING ALL)',
                               kind, to_char(month, 'YYYYMM'));
                EXECUTE format('ALTER TABLE :schema.archived_%1$s ATTACH PARTITION :schema.archived_%1$s_%2$s'
                               ' FOR VALUES FROM (%3$L) TO (%4$L)', kind, to_char(month, 'YYYYMM'),
                               :schema.archive_month_start(month), :schema.archive_month_start(month + interval '1 month'));
            END IF;
        END LOOP;
    END LOOP;
END
$$;

REVOKE ALL ON FUNCTION :schema.make_archive_months(uuid[]) FROM PUBLIC;
