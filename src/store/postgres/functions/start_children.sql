-- Enqueues the next children of a start step, at most `most`. One whose request is refused has ended as REFUSED. Its params and its key are
-- kept with the execution alone from here on, and go with it. A key that is known gives the execution that adopt_child() finds.
-- In a workspace that the step names it takes a workflow of all workspaces, and a refusal tells nothing of that workspace: the tenant of
-- the parent reads it. The children have the trace context of the parent.
-- Returns how many have begun, how many have ended with this, and how many of these have completed.
-- Locks: those of enqueue_set() and adopt_child(). Callers: start_more_children(), start_keyed_children().
CREATE OR REPLACE FUNCTION :schema.start_children(held :schema.child_steps, most integer, OUT started integer, OUT ended integer,
                                                  OUT completed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    owner constant text := coalesce(held.workspace, (SELECT w.name FROM :schema.workspaces w WHERE w.id = held.workspace_id));
    ids uuid[];
    contents bytea[];
    keys text[];
    is_disabled constant boolean := held.workspace IS NOT NULL
        AND EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.name = held.workflow AND d.workspace_id = 0 AND d.state = 1);
    items integer;
    trace constant text := coalesce((SELECT q.traceparent FROM :schema.workflow_execution_queue q WHERE q.id = held.parent_id),
                                    (SELECT h.traceparent FROM :schema.workflow_executions h WHERE h.id = held.parent_id));
BEGIN
    SELECT array_agg(n.child_id ORDER BY n.position), array_agg(n.params ORDER BY n.position), array_agg(n.key ORDER BY n.position),
           count(*) INTO ids, contents, keys, items
    FROM (SELECT c.child_id, c.position, c.params, c.key FROM :schema.children c
          WHERE c.parent_id = held.parent_id AND c.step = held.step AND c.position >= held.started ORDER BY c.position LIMIT most) n;
    WITH answer AS (
        SELECT held.started + s.place - 1 AS position, s.status, s.message, keys[s.place] AS key,
               s.duplicate OR s.status = 'idempotency_key_reused' AS is_known
        FROM :schema.enqueue_set(ids, array_fill(false, ARRAY[items]), array_fill(owner, ARRAY[items]),
                                 array_fill(held.workflow, ARRAY[items]), contents, keys,
                                 array_fill(held.executor_group, ARRAY[items]), array_fill(held.priority, ARRAY[items]),
                                 array_fill(NULL::bigint, ARRAY[items]), array_fill(held.default_group, ARRAY[items]),
                                 array_fill(trace, ARRAY[items]),
                                 only_of_all => held.workspace IS NOT NULL, is_bounded => false) s
        WHERE items > 0
    ), adopted AS MATERIALIZED (
        SELECT n.position, a.* FROM answer n CROSS JOIN LATERAL :schema.adopt_child(held, owner, n.key) a
        WHERE n.key IS NOT NULL AND n.is_known
    ), told AS (
        SELECT a.position, NULL::uuid AS adopted_id, NULL::text AS state,
               CASE WHEN a.is_foreign THEN 'workflow_not_found' ELSE a.status END AS status,
               CASE WHEN a.is_foreign THEN format('there is no workflow "%s" of all workspaces', held.workflow)
                    WHEN held.workspace IS NOT NULL AND a.status = 'workspace_not_found' THEN 'the workspace of the step does not exist'
                    ELSE a.message END AS message
        FROM (SELECT n.position, n.status, n.message,
                     held.workspace IS NOT NULL
                     AND (n.status IN ('workflow_of_another_workspace', 'workflow_not_found')
                          OR n.status = 'workflow_disabled' AND NOT is_disabled) AS is_foreign
              FROM answer n WHERE n.key IS NULL OR NOT n.is_known) a
        UNION ALL
        SELECT a.position, a.id, a.state, a.code, a.message FROM adopted a
    ), begun AS (
        UPDATE :schema.children c
        SET params = NULL, key = NULL, child_id = coalesce(a.adopted_id, c.child_id), is_adopted = a.adopted_id IS NOT NULL,
            status = CASE WHEN a.status <> 'ok' THEN 'REFUSED' ELSE a.state END, error_code = nullif(a.status, 'ok'),
            error = CASE WHEN a.status <> 'ok' THEN a.message END
        FROM told a
        WHERE c.parent_id = held.parent_id AND c.step = held.step AND c.position = a.position
              AND c.position >= held.started AND c.position < held.started + items -- else a hash of all children is made
              AND (c.params IS NOT NULL OR c.key IS NOT NULL OR a.status <> 'ok')
        RETURNING c.status
    )
    SELECT count(b.status), count(*) FILTER (WHERE b.status = 'COMPLETED') INTO ended, completed FROM begun b;
    started := items - ended;
END
$$;
