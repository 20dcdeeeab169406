-- Whether the workflow has this step, or any steps when the step is NULL. Callers: retry_executions().
CREATE OR REPLACE FUNCTION :schema.has_step(definition_id bigint, step text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT CASE WHEN has_step.step IS NULL THEN d.steps IS NOT NULL ELSE d.steps -> has_step.step IS NOT NULL END
                     FROM (SELECT x.definition::json -> 'steps' AS steps FROM :schema.workflow_definitions x
                           WHERE x.id = has_step.definition_id) d), false)
$$;
