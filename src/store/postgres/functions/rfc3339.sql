-- A time as every JSON answer of weir shows it. Callers: queries, execution_json(), why_living().
CREATE OR REPLACE FUNCTION :schema.rfc3339(at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

CREATE OR REPLACE FUNCTION :schema.rfc3339(microseconds bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT :schema.rfc3339(:schema.time_of(microseconds))
$$;
