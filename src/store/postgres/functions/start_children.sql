-- Enqueues the next children of a start step, at most `most`. One whose request is refused has ended as REFUSED. Its params are kept
-- with the execution alone from here on, and go with it.
-- In a workspace that the step names it takes a workflow of all workspaces, and a refusal tells nothing of that workspace: the tenant of
-- the parent reads it.
-- Returns how many were enqueued, and how many refused. Locks: those of enqueue_set(). Caller: advance_child_step().
CREATE OR REPLACE FUNCTION :schema.start_children(held :schema.child_steps, most integer, OUT started integer, OUT refused integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    owner constant text := coalesce(held.workspace, (SELECT w.name FROM :schema.workspaces w WHERE w.id = held.workspace_id));
    ids uuid[];
    contents bytea[];
    is_disabled constant boolean := held.workspace IS NOT NULL
        AND EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.name = held.workflow AND d.workspace_id = 0 AND d.state = 1);
    items integer;
BEGIN
    SELECT array_agg(n.child_id ORDER BY n.position), array_agg(n.params ORDER BY n.position), count(*) INTO ids, contents, items
    FROM (SELECT c.child_id, c.position, c.params FROM :schema.children c
          WHERE c.parent_id = held.parent_id AND c.step = held.step AND c.position >= held.started ORDER BY c.position LIMIT most) n;
    WITH answer AS (
        SELECT held.started + s.place - 1 AS position, s.status, s.message
        FROM :schema.enqueue_set(ids, array_fill(false, ARRAY[items]), array_fill(owner, ARRAY[items]),
                                 array_fill(held.workflow, ARRAY[items]), contents, array_fill(NULL::text, ARRAY[items]),
                                 array_fill(held.executor_group, ARRAY[items]), array_fill(held.priority, ARRAY[items]),
                                 array_fill(NULL::bigint, ARRAY[items]), array_fill(held.default_group, ARRAY[items]), '{}',
                                 only_of_all => held.workspace IS NOT NULL, is_bounded => false) s
        WHERE items > 0
    ), told AS (
        SELECT a.position,
               CASE WHEN a.is_foreign THEN 'workflow_not_found' ELSE a.status END AS status,
               CASE WHEN a.is_foreign THEN format('there is no workflow "%s" of all workspaces', held.workflow)
                    WHEN held.workspace IS NOT NULL AND a.status = 'workspace_not_found' THEN 'the workspace of the step does not exist'
                    ELSE a.message END AS message
        FROM (SELECT n.position, n.status, n.message,
                     held.workspace IS NOT NULL
                     AND (n.status IN ('workflow_of_another_workspace', 'workflow_not_found')
                          OR n.status = 'workflow_disabled' AND NOT is_disabled) AS is_foreign
              FROM answer n) a
    ), ended AS (
        UPDATE :schema.children c
        SET params = NULL, status = CASE WHEN a.status <> 'ok' THEN 'REFUSED' END, error_code = nullif(a.status, 'ok'),
            error = CASE WHEN a.status <> 'ok' THEN a.message END
        FROM told a
        WHERE c.parent_id = held.parent_id AND c.step = held.step AND c.position = a.position
              AND c.position >= held.started AND c.position < held.started + items -- else a hash of all children is made
              AND (c.params IS NOT NULL OR a.status <> 'ok')
        RETURNING c.status
    )
    SELECT count(e.status) INTO refused FROM ended e;
    started := items - refused;
END
$$;
