-- The variables of a machine with the changes of an update, as JSON text, and their bytes as a node counts them. machine: NULL = it has not
-- begun, and has the initial values. Values stay as they were written: jsonb writes 1e20 as an integer, which no node can read.
-- Locks: none. Caller: update_state().
CREATE OR REPLACE FUNCTION :schema.updated_variables(definition json, machine json, changes json, OUT variables text, OUT bytes bigint)
LANGUAGE sql IMMUTABLE AS $$
    WITH changed AS MATERIALIZED (SELECT c.key, c.value FROM json_each(changes) c),
         kept AS (SELECT e.key, e.value FROM json_each(machine -> 'variables') e
                  UNION ALL SELECT v.key, v.value -> 'initial' FROM json_each(definition -> 'variables') v
                  WHERE machine IS NULL AND v.value -> 'initial' IS NOT NULL),
         named AS (SELECT to_json(k.key)::text || ':' || k.value::text AS text FROM kept k WHERE k.key NOT IN (SELECT c.key FROM changed c)
                   UNION ALL SELECT to_json(c.key)::text || ':' || c.value::text FROM changed c)
    SELECT '{' || coalesce(string_agg(n.text, ','), '') || '}', coalesce(sum(octet_length(n.text) + 1), 1) + 1 FROM named n
$$;
