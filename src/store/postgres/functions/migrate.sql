-- For callers in SQL: a PENDING or WAITING execution goes on with this version of its workflow. Its steps on record must fit.
-- Raises execution_not_found, illegal_state, workflow_not_found, invalid_argument. Locks: those of migrate_items().
CREATE OR REPLACE FUNCTION :schema.migrate(execution_id uuid, to_version integer, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    IF to_version IS NULL OR to_version < 1 THEN
        PERFORM :schema.refuse('invalid_argument', 'a migration needs the version that the executions get',
                               '`weir workflow show NAME` lists the versions');
    END IF;
    SELECT a.outcome, a.detail, a.steps INTO act
    FROM :schema.migrate_items(ARRAY[execution_id], to_version, :schema.actor(), reason) a;
    IF act.outcome = 'no_version' THEN
        PERFORM :schema.refuse('workflow_not_found', format('execution %s is %s: its workflow has no version %s', execution_id,
                                                            act.detail, to_version), '`weir workflow show NAME` lists the versions');
    ELSIF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
            CASE act.outcome
                WHEN 'same' THEN format('it has version %s already', to_version)
                WHEN 'steps' THEN format('version %s does not fit its steps on record: %s', to_version, act.steps)
                WHEN 'held' THEN 'a node holds it; migrate it while it is PENDING or WAITING, or cancel and retry it'
                WHEN 'temporal'
                    THEN 'workflows of Temporal cannot be migrated; their workers decide with which code an execution goes on'
                ELSE 'it has ended, and its history keeps its version' END);
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.migrate(uuid, integer, text) FROM PUBLIC;
