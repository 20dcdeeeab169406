-- Lets a role of PostgreSQL use one more workspace, and no workspace that it was not granted. The role may enqueue there, cancel, signal,
-- and ask for usage, reasons and results. It may read the views own_executions and own_execution_events. For the owner of the schema.
-- Raises workspace_not_found, not_found (no such role), not_permitted. Locks: the row of the workspace FOR KEY SHARE.
CREATE OR REPLACE FUNCTION :schema.grant_workspace(grantee text, workspace text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    granted integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolname = grantee) THEN
        PERFORM :schema.refuse('not_found', format('the server has no role "%s"', grantee), 'make it first: CREATE ROLE name LOGIN');
    END IF;
    SELECT w.id INTO granted FROM :schema.workspaces w WHERE w.name = workspace FOR KEY SHARE;
    PERFORM :schema.refuse_workspace(workspace) WHERE granted IS NULL;
    IF has_table_privilege(grantee, (SELECT s.tableoid FROM :schema.store_state s WHERE s.id = 1), 'SELECT') THEN
        PERFORM :schema.refuse('illegal_state', format('the role "%s" can read all tables, so it cannot be limited', grantee),
                               'give each application a role of its own, without rights to tables');
    END IF;
    INSERT INTO :schema.workspace_grants (grantee, workspace_id) VALUES (grantee, 0), (grantee, granted) ON CONFLICT DO NOTHING;
    EXECUTE format('GRANT USAGE ON SCHEMA :schema TO %I', grantee);
    EXECUTE format('GRANT SELECT ON :schema.own_executions, :schema.own_execution_events TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION'
                   ' :schema.enqueue(text, text, text, text, integer, timestamptz, text, uuid, text, text, jsonb,'
                   ' text, interval, interval),'
                   ' :schema.enqueue(text, text, jsonb, text, integer, timestamptz, text, uuid, text, text, jsonb,'
                   ' text, interval, interval),'
                   ' :schema.enqueue(text, text, json, text, integer, timestamptz, text, uuid, text, text, jsonb,'
                   ' text, interval, interval),'
                   ' :schema.try_enqueue(text, text, text, text, integer, timestamptz, text, uuid, text, text, jsonb,'
                   ' text, interval, interval),'
                   ' :schema.enqueue_many(jsonb),'
                   ' :schema.cancel(uuid, text), :schema.signal(uuid, text, text, text, text),'
                   ' :schema.signal(uuid, text, jsonb, text, text), :schema.signal(uuid, text, json, text, text),'
                   ' :schema.approve(uuid, text, text, text), :schema.reject(uuid, text, text, text),'
                   ' :schema.usage(text), :schema.why(uuid), :schema.result(uuid),'
                   ' :schema.own_workspaces() TO %I', grantee);
    IF NOT has_function_privilege(grantee, (SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
                                            WHERE p.proname = 'own_workspaces' AND c.oid = (SELECT s.tableoid FROM :schema.store_state s
                                                                                            WHERE s.id = 1)), 'EXECUTE') THEN
        PERFORM :schema.refuse('not_permitted', format('the role "%s" could not be given its rights', grantee),
                               'call it as the owner of the schema; nothing was changed');
    END IF;
    PERFORM :schema.record_act(:schema.actor(), NULL, 'workspace grant', workspace, NULL, jsonb_build_object('grantee', grantee), 0);
END
$$;

REVOKE ALL ON FUNCTION :schema.grant_workspace(text, text) FROM PUBLIC;
