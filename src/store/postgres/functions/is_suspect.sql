-- Whether steps of the item ran at deaths of nodes and none has ended since the last handover.
-- Locks: none. Callers: interruption_facts(), inbox().
CREATE OR REPLACE FUNCTION :schema.is_suspect(execution uuid, suspicion smallint, steps_ended integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN suspicion > 1 AND (SELECT count(n.finished_at) FROM :schema.workflow_node_executions n
                              WHERE n.execution_id = execution) <= steps_ended;
END
$$;
