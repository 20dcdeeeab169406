-- For callers in SQL: gives a workspace another name, in this transaction. A role that is limited to workspaces may not: the refusal of a
-- name that is taken would show the workspaces of others. Under another isolation than READ COMMITTED it is refused, because an old
-- snapshot misses executions.
-- Raises workspace_not_found, conflict, invalid_argument, illegal_state, not_permitted. Locks: those of change_workspace_name().
CREATE OR REPLACE FUNCTION :schema.rename_workspace(workspace text, new_name text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer record;
BEGIN
    PERFORM :schema.check_reason(reason);
    PERFORM :schema.require_workspace(workspace);
    IF :schema.own_workspaces() IS NOT NULL THEN
        PERFORM :schema.refuse('not_permitted', 'a role that is limited to workspaces renames none', 'ask an operator of the store');
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM :schema.refuse('illegal_state', 'a workspace is renamed in a transaction of READ COMMITTED only', NULL);
    ELSIF coalesce(octet_length(new_name), 0) NOT BETWEEN 1 AND 128 THEN
        PERFORM :schema.refuse('invalid_argument', 'the workspace''s name must have 1 to 128 bytes of UTF-8', NULL);
    ELSIF new_name ~ U&'[\0001-\001F\007F-\009F\061C\200E\200F\2028-\202E\2066-\2069\FEFF]' THEN
        PERFORM :schema.refuse('invalid_argument', 'the workspace''s name has control characters', NULL);
    ELSIF new_name ~ U&'^([ \00A0\00AD\1680\2000-\200D\202F\205F\2060\2800\3000]+|[.][.]?)$' THEN
        PERFORM :schema.refuse('invalid_argument', 'the workspace''s name is "." or "..", or nothing but blanks', 'give it another name');
    ELSIF workspace = new_name THEN
        PERFORM :schema.refuse('invalid_argument', format('"%s" is the name of the workspace already', workspace), NULL);
    END IF;
    answer := :schema.change_workspace_name(workspace, new_name, :schema.actor(), reason);
    IF answer.status = 'workspace_not_found' THEN
        PERFORM :schema.refuse_workspace(workspace);
    ELSIF answer.status = 'conflict' THEN
        PERFORM :schema.refuse('conflict', format('a workspace "%s" exists already', new_name),
                               'give another name; two workspaces cannot be made one');
    ELSIF answer.status <> 'ok' THEN
        PERFORM :schema.refuse(answer.status,
                               format('%s running executions of workspace "%s" on Temporal may have its name in the workflow id',
                                      answer.used, workspace),
                               'pause it, await or cancel the running ones, and rename it again');
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.rename_workspace(text, text, text) FROM PUBLIC;
