-- The first outcome with which an update is refused (see update_state), by the definition of the execution; NULL = none. With the name at
-- fault. `names` has those of the definition, or the type. present: its state. The rules are those of store/state_update.c. Locks: none.
-- Caller: update_state().
CREATE OR REPLACE FUNCTION :schema.update_problem(definition json, wanted text, if_state text, present text, changes json,
                                                  OUT outcome text, OUT name text, OUT names text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT p.outcome, left(p.name, 64), p.names
    FROM (SELECT 1 AS place, 'no_states' AS outcome, NULL AS name, NULL AS names WHERE definition -> 'states' IS NULL
          UNION ALL
          SELECT 2, 'unknown_state', wanted, (SELECT string_agg(s.key, ', ') FROM json_each(definition -> 'states') s)
          WHERE definition -> 'states' -> wanted IS NULL AND wanted IS NOT NULL
          UNION ALL SELECT 3, 'other_state', present, NULL WHERE if_state <> present
          UNION ALL
          SELECT 3 + c.place, f.fault, c.key,
                 CASE f.fault WHEN 'wrong_type' THEN t.declared
                              ELSE (SELECT string_agg(v.key, ', ') FROM json_each(definition -> 'variables') v) END
          FROM json_each(changes) WITH ORDINALITY c (key, value, place)
          CROSS JOIN LATERAL (SELECT definition #>> ARRAY['variables', c.key, 'type'] AS declared, json_typeof(c.value) AS has) t
          CROSS JOIN LATERAL (SELECT CASE
              WHEN t.declared IS NULL THEN 'unknown_variable'
              WHEN t.has NOT IN ('null', t.declared) AND t.declared <> 'any'
                   AND NOT (t.declared = 'integer' AND t.has = 'number' AND c.value::text ~ '^-?[0-9]+$') THEN 'wrong_type'
              WHEN octet_length(c.value::text) > 32768 THEN 'too_large' END AS fault) f -- STATE_VARIABLE_BYTES_MAX
          WHERE f.fault IS NOT NULL) p
    ORDER BY p.place LIMIT 1
$$;
