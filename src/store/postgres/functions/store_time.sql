-- The time of the store: microseconds since 1970 by the server's clock, which all nodes share. Views call it with the rights of their
-- reader, so its operators are qualified and every role may execute it. Callers: every function and query that needs the present time.
CREATE OR REPLACE FUNCTION :schema.store_time() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint
$$;

GRANT EXECUTE ON FUNCTION :schema.store_time() TO PUBLIC;
