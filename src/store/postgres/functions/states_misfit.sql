-- The reason why a machine does not fit another version of its workflow (docs/design/states.md). Its present state has to be there with
-- its type, its variables with theirs, and the signal that it waits for. NULL = it fits. signal: NULL = it waits for none.
-- Locks: none. Caller: migration_outcomes().
CREATE OR REPLACE FUNCTION :schema.states_misfit(old json, new json, machine json, signal text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN new -> 'states' -> s.name IS NULL THEN 'is not there: ' || s.name
        WHEN old -> 'states' -> s.name IS NOT NULL
             AND new #>> ARRAY['states', s.name, 'type'] IS DISTINCT FROM old #>> ARRAY['states', s.name, 'type']
            THEN 'has another type: ' || s.name
        WHEN EXISTS (SELECT 1 FROM json_each(machine -> 'variables') v
                     WHERE json_typeof(v.value) <> 'null' AND new #>> ARRAY['variables', v.key, 'type']
                                                              IS DISTINCT FROM old #>> ARRAY['variables', v.key, 'type'])
            THEN 'has other variables'
        WHEN signal NOT LIKE '%:%' AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(coalesce(new -> 'signals', '[]')) g (name)
                                                   WHERE g.name = signal)
            THEN 'waits for something else' END
    FROM (SELECT machine ->> 'state') s (name)
$$;
