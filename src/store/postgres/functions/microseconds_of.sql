-- A timestamptz as microseconds since 1970; NULL stays NULL. Callers: try_enqueue(), enqueue_many().
CREATE OR REPLACE FUNCTION :schema.microseconds_of(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT extract(epoch FROM date_trunc('second', at, 'UTC'))::bigint * 1000000 + extract(microseconds FROM at)::bigint % 1000000
$$;
