-- The steps of a definition, with their undos as steps of their own. section: where they stand. kind: the key that makes the step do
-- something. The states of a workflow are the step `state`, with the whole definition. Locks: none. Caller: migration_outcomes().
CREATE OR REPLACE FUNCTION :schema.migration_parts(definition json) RETURNS TABLE (step text, section text, body json, kind text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT p.step, p.section, p.body,
           (SELECT k.key FROM json_object_keys(p.body) k (key)
            WHERE k.key IN ('exec', 'http', 'sleep', 'signal', 'approve', 'start', 'handler', 'states') LIMIT 1)
    FROM (SELECT e.key, x.section, e.value
          FROM unnest('{steps,on_failure,finally}'::text[]) x (section),
               json_each(coalesce(definition -> x.section, '{}')) e
          UNION ALL
          SELECT e.key || '.undo', 'undo', e.value -> 'undo' FROM json_each(coalesce(definition -> 'steps', '{}')) e
          WHERE e.value -> 'undo' IS NOT NULL
          UNION ALL
          SELECT 'state', 'states', definition WHERE definition -> 'states' IS NOT NULL) p (step, section, body)
$$;
