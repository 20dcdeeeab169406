-- The problem of the changes of variables of an update, by the definition: 'unknown_variable', 'wrong_type' or 'too_large'. With the name
-- at fault, and the names of the definition or the type; NULL = nothing. The rules are those of store/state_update.c. Locks: none.
-- Caller: update_state().
CREATE OR REPLACE FUNCTION :schema.update_problem(definition json, changes json, OUT outcome text, OUT name text, OUT names text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT f.fault, left(f.key, 64),
           CASE f.fault WHEN 'wrong_type' THEN f.declared
                        ELSE (SELECT string_agg(v.key, ', ') FROM json_each(definition -> 'variables') v) END
    FROM (SELECT c.key, c.place, t.declared,
                 CASE WHEN t.declared IS NULL THEN 'unknown_variable'
                      WHEN t.has NOT IN ('null', t.declared) AND t.declared <> 'any'
                           AND NOT (t.declared = 'integer' AND t.has = 'number' AND c.value::text ~ '^-?[0-9]+$') THEN 'wrong_type'
                      WHEN octet_length(c.value::text) > 32768 THEN 'too_large' END AS fault -- STATE_VARIABLE_BYTES_MAX
          FROM json_each(changes) WITH ORDINALITY c (key, value, place) CROSS JOIN LATERAL (
              SELECT definition #>> ARRAY['variables', c.key, 'type'] AS declared, json_typeof(c.value) AS has) t) f
    WHERE f.fault IS NOT NULL ORDER BY f.place LIMIT 1
$$;
