-- The answer to a request that was not inserted, with the messages of the library. It reads rows that other transactions have committed
-- meanwhile.
--   request_id ... idempotency_key  the request
--   workspace_id, definition_id     NULL: the name is unknown
--   unknown_group                   the group that the request names and that does not exist, or NULL
--   is_full                         its workspace had no room for all of the set; NULL = it had
-- Returns status, id, duplicate, message and hint. To a role that is limited to some workspaces a workflow of another one is missing. A key
-- that points to an execution without it was inserted by this call; it is deleted.
-- Locks: that row. Callers: enqueue_set(), enqueue_one().
CREATE OR REPLACE FUNCTION :schema.enqueue_answer(request_id uuid, workspace text, workflow text, content bytea, idempotency_key text,
                                       workspace_id integer, definition_id bigint, unknown_group text, is_full boolean,
                                       OUT status text, OUT id uuid, OUT duplicate boolean, OUT message text, OUT hint text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    first record;
BEGIN
    duplicate := false;
    IF workspace_id IS NULL THEN
        status := 'workspace_not_found';
        message := format('there is no workspace "%s"', workspace);
        hint := format('make it with: weir workspace set %s --plan free', :schema.shell_quote(workspace));
        RETURN;
    ELSIF definition_id IS NULL AND EXISTS (SELECT 1 FROM :schema.workflow_definitions d
                                            WHERE d.name = workflow AND d.workspace_id IN (enqueue_answer.workspace_id, 0)
                                              AND d.state = 1) THEN
        status := 'workflow_disabled';
        message := format('workflow "%s" is disabled: it takes no new executions', workflow);
        hint := 'weir workflow enable ' || :schema.shell_quote(workflow);
        IF EXISTS (SELECT 1 FROM :schema.workflow_definitions d
                   WHERE d.name = workflow AND d.workspace_id = enqueue_answer.workspace_id AND d.state = 1) THEN
            hint := hint || ' -w ' || :schema.shell_quote(workspace);
        END IF;
        RETURN;
    -- Of another workspace only: its own may have been published since the definition was looked for.
    ELSIF definition_id IS NULL AND :schema.own_workspaces() IS NULL
          AND EXISTS (SELECT 1 FROM :schema.workflow_definitions d
                      WHERE d.name = workflow AND d.workspace_id NOT IN (enqueue_answer.workspace_id, 0) AND d.state <> 2) THEN
        status := 'workflow_of_another_workspace';
        message := format('workflow "%s" belongs to another workspace than "%s"', workflow, workspace);
        hint := 'publish it for this workspace, or without an owner so that every workspace may run it';
        RETURN;
    ELSIF definition_id IS NULL THEN
        status := 'workflow_not_found';
        message := format('workspace "%s" has no workflow "%s"', workspace, workflow);
        hint := 'publish it with: weir workflow apply FILE';
        RETURN;
    ELSIF unknown_group IS NOT NULL THEN
        status := 'not_found';
        message := format('there is no executor group "%s"; there are: %s', unknown_group,
                          (SELECT string_agg(CASE WHEN g.place < 6 THEN format('"%s"', g.name) ELSE 'others' END,
                                             CASE WHEN g.place < 6 THEN ', ' ELSE ' and ' END ORDER BY g.place)
                           FROM (SELECT e.name, row_number() OVER (ORDER BY e.name) AS place FROM :schema.executor_groups e
                                 ORDER BY e.name LIMIT 6) g));
        hint := 'a node that serves it makes it (weir serve --executor-group NAME), or a published workflow that names it (executor_group)';
        RETURN;
    END IF;
    IF idempotency_key IS NOT NULL THEN
        DELETE FROM :schema.idempotency_keys k
        WHERE k.workspace_id = enqueue_answer.workspace_id AND k.key = idempotency_key AND k.execution_id = request_id
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = k.execution_id AND q.workspace_id = k.workspace_id
                                                                             AND q.idempotency_key = k.key)
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = k.execution_id AND h.workspace_id = k.workspace_id
                                                                        AND h.idempotency_key = k.key);
        SELECT k.execution_id, d.name, p.params, h.archived INTO first
        FROM :schema.idempotency_keys k
        LEFT JOIN :schema.workflow_execution_queue q ON q.id = k.execution_id
        LEFT JOIN :schema.workflow_executions h ON h.id = k.execution_id
        LEFT JOIN :schema.workflow_definitions d ON d.id = coalesce(q.definition_id, h.definition_id)
        LEFT JOIN :schema.execution_params p ON p.id = k.execution_id
        WHERE k.workspace_id = enqueue_answer.workspace_id AND k.key = idempotency_key;
        IF FOUND AND first.name = workflow
           AND :schema.kept_params(first.execution_id, first.archived, first.params) IS NOT DISTINCT FROM content THEN
            status := 'ok'; duplicate := true; id := first.execution_id;
            RETURN;
        ELSIF FOUND THEN
            status := 'idempotency_key_reused';
            message := format('idempotency key "%s" was used before with another workflow or other params (execution %s)',
                              idempotency_key, first.execution_id);
            hint := 'use a new key for a new request';
            RETURN;
        END IF;
    END IF;
    -- The same id again is a repeated request. The refusal of an id of another workspace shows nothing of it.
    SELECT o.owner INTO first
    FROM (SELECT q.workspace_id AS owner FROM :schema.workflow_execution_queue q WHERE q.id = request_id
          UNION ALL SELECT h.workspace_id FROM :schema.workflow_executions h WHERE h.id = request_id) o LIMIT 1;
    IF FOUND AND first.owner = workspace_id THEN
        status := 'ok'; duplicate := true; id := request_id;
    ELSIF FOUND THEN
        status := 'conflict';
        message := format('the id %s cannot be used', request_id);
        hint := 'leave the id out, then a new one is made';
    ELSIF is_full THEN
        status := 'queue_full';
        message := format('workspace "%s" has %s pending executions, as many as it may have', workspace,
                          (SELECT w.pending_max FROM :schema.workspaces w WHERE w.id = workspace_id));
        hint := format('repeat it later, or raise the limit: weir workspace set %s --max-pending N', :schema.shell_quote(workspace));
    ELSE
        RAISE serialization_failure USING MESSAGE = 'the execution that made this request a duplicate was removed at this moment',
            HINT = 'repeat the call';
    END IF;
END
$$;
