-- Microseconds since 1970 as timestamptz, exact over the whole range of bigint. STABLE and without settings, so that the planner
-- expands it where it is called. Views call it with the rights of their reader, so its operators are qualified.
-- Callers: the views, rfc3339(), try_enqueue (queries/enqueue.sql).
CREATE OR REPLACE FUNCTION :schema.time_of(microseconds bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ('epoch'::pg_catalog.timestamptz
            OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => (microseconds OPERATOR(pg_catalog./) 1000000)::double precision))
           OPERATOR(pg_catalog.+) ((microseconds OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond')
$$;

GRANT EXECUTE ON FUNCTION :schema.time_of(bigint) TO PUBLIC;
