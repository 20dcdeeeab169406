-- A UUIDv7 (RFC 9562) of a time of the store; `nth` keeps the ids of one call in their order. The 12 bits behind the milliseconds are
-- the fraction of the millisecond. Callers: try_enqueue(), enqueue_many(), insert_firings(), retry_one().
CREATE OR REPLACE FUNCTION :schema.make_id(microseconds bigint, nth bigint) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ticks constant bigint := microseconds / 1000 * 4096 + microseconds % 1000 * 4096 / 1000 + nth;
    bytes bytea := overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(ticks >> 12) FROM 3 FOR 6) FROM 1);
BEGIN
    bytes := set_byte(set_byte(bytes, 6, 112 | ((ticks >> 8) & 15)::integer), 7, (ticks & 255)::integer);
    RETURN encode(bytes, 'hex')::uuid;
END
$$;
