-- A target as people read it: engine_target_text() in queue/engine_target.h. NULL = there is none. Locks: none. Caller: why_living().
CREATE OR REPLACE FUNCTION :schema.target_text(target integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN t.service = '' THEN t.engine
                ELSE format('%s, namespace %s (%s) at %s', t.engine, t.namespace, t.service, t.address) END
    FROM :schema.engine_targets t WHERE t.id = target
$$;
