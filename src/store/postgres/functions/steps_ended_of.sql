-- The amount of an execution that has ended, a number that only grows: its steps. For a workflow with states, also the last action that
-- led to another state, because its one step ends with the execution. A retry is no progress, and neither is an update by a person.
-- Locks: none. Callers: is_suspect(), count_handovers().
CREATE OR REPLACE FUNCTION :schema.steps_ended_of(execution uuid) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT (SELECT count(n.finished_at) FROM :schema.workflow_node_executions n WHERE n.execution_id = execution)::integer
           + coalesce((SELECT max(a.action) FROM :schema.workflow_actions a
                       WHERE a.execution_id = execution AND a.outcome IN ('next', 'wait', 'failed')), 0)
$$;
