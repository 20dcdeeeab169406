-- UUIDv7s of a time of the store in their order, as make_id() makes them. One statement makes all of them: a call of a function for each
-- would take longer than the insert of its row. Caller: make_children().
CREATE OR REPLACE FUNCTION :schema.make_ids(microseconds bigint, items integer) RETURNS uuid[]
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(encode(set_byte(set_byte(overlay(uuid_send(gen_random_uuid())
                                                      PLACING substring(int8send(t.ticks >> 12) FROM 3 FOR 6) FROM 1),
                                              6, 112 | ((t.ticks >> 8) & 15)::integer), 7, (t.ticks & 255)::integer), 'hex')::uuid
                     ORDER BY t.ticks)
    FROM (SELECT microseconds / 1000 * 4096 + microseconds % 1000 * 4096 / 1000 + s.n AS ticks
          FROM generate_series(1, items::bigint) s (n)) t
$$;
