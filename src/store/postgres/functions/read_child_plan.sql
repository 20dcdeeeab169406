-- Reads the plan of a new start step from the variables of its step, or that of an action, and checks it. The row of the step keeps it,
-- and make_children() makes rows of it. Returns whether it is there, as the parent may have been purged before, and its work, in parts of
-- 4 KiB. A plan beyond the limits, or one that cannot be read, makes no children. Then `problem` of the step keeps the code of its failure
-- until the parent can be locked.
-- Locks: none but its own rows, and that of the step, which the caller has locked. Caller: advance_child_step().
CREATE OR REPLACE FUNCTION :schema.read_child_plan(now_us bigint, parent uuid, of_step text, OUT is_there boolean, OUT work integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    params_most constant integer := 1048576; -- PARAMS_BYTES_MAX in queue/limits.h
    children_most constant integer := 10000; -- CHILDREN_OF_STEP_MOST in queue/limits.h
    contents bytea := coalesce((SELECT nullif(o.plan, '') FROM :schema.child_steps o WHERE o.parent_id = parent AND o.step = of_step),
                               (SELECT e.variables FROM :schema.workflow_node_executions e
                                WHERE e.execution_id = parent AND e.step = of_step));
    deep integer := 1 + coalesce((SELECT s.depth FROM :schema.children c
                                  JOIN :schema.child_steps s ON s.parent_id = c.parent_id AND s.step = c.step
                                  WHERE c.child_id = parent AND NOT c.is_adopted), 0);
    others bigint := coalesce((SELECT sum(s.count) FROM :schema.child_steps s WHERE s.parent_id = parent), 0);
    -- Children are not refused one by one. But children that start children would fill the store from one execution that was accepted.
    is_full constant boolean := deep > 1 AND EXISTS (
        SELECT 1 FROM :schema.child_steps s JOIN :schema.workspaces w ON w.id = s.workspace_id AND w.pending_max > 0
        WHERE s.parent_id = parent AND s.step = of_step
          AND (SELECT count(*)
               FROM (SELECT 1 FROM :schema.workflow_execution_queue q
                     WHERE q.due_at IS NULL AND q.lane_id = ANY (ARRAY(SELECT a.base | w.id FROM :schema.group_lanes a)) AND q.phase = 0
                     UNION ALL
                     SELECT 1 FROM :schema.workflow_execution_queue q
                     WHERE q.due_at IS NOT NULL AND q.waiting_for IS NULL
                       AND q.lane_id = ANY (ARRAY(SELECT a.base | w.id FROM :schema.group_lanes a))
                     LIMIT w.pending_max + children_most) p) >= w.pending_max + children_most);
    outline json;
    items integer;
    wrong text;
    own record;
BEGIN
    is_there := contents IS NOT NULL;
    work := octet_length(contents) / 4096;
    IF NOT is_there THEN
        RETURN;
    END IF;
    SELECT p.priority, g.name INTO own
    FROM (SELECT q.priority, q.lane_id FROM :schema.workflow_execution_queue q WHERE q.id = parent
          UNION ALL
          SELECT h.priority, h.lane_id FROM :schema.workflow_executions h WHERE h.id = parent) p
    JOIN :schema.executor_groups g ON g.id = p.lane_id >> 47;
    BEGIN -- a plan that was altered must not stop the duty of all
        outline := convert_from(contents, 'UTF8')::json;
        items := json_array_length(outline -> 'children');
        wrong := CASE WHEN deep > 16 THEN 'children_too_deep' WHEN is_full THEN 'children_queue_full'
                      WHEN others + items > 100000 THEN 'children_too_many'
                      WHEN items IS NULL THEN 'children_invalid'
                      WHEN EXISTS (SELECT 1 FROM json_array_elements(outline -> 'children') c (params)
                                   WHERE octet_length(c.params::text) > params_most) THEN 'children_too_large'
                      WHEN outline -> 'keys' IS NULL THEN NULL
                      WHEN json_array_length(outline -> 'keys') IS DISTINCT FROM items
                           OR EXISTS (SELECT 1 FROM json_array_elements_text(outline -> 'keys') k (key)
                                      WHERE k.key IS NULL OR octet_length(k.key) NOT BETWEEN 1 AND 255) THEN 'children_invalid'
                      WHEN EXISTS (SELECT 1 FROM json_array_elements_text(outline -> 'keys') k (key)
                                   WHERE starts_with(k.key, 'hook/') OR starts_with(k.key, 'schedule/')) THEN 'child_key_reserved' END;
        items := CASE WHEN wrong IS NULL THEN items ELSE 0 END;
        UPDATE :schema.child_steps s
        SET workspace = outline ->> 'workspace', workflow = outline ->> 'workflow',
            executor_group = outline ->> 'executor_group', default_group = own.name,
            priority = coalesce((outline ->> 'priority')::integer, own.priority, 0), is_single = outline ->> 'is_single' = '1',
            waits_for_all = outline ->> 'waits_for_all' = '1', wanted = (outline ->> 'wanted')::integer,
            max_parallel = (outline ->> 'max_parallel')::integer, leaves = outline ->> 'leaves' = '1', depth = deep, count = items,
            problem = wrong, rest = CASE WHEN items > 0 THEN contents END
        WHERE s.parent_id = parent AND s.step = of_step;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        UPDATE :schema.child_steps s SET depth = deep, count = 0, problem = 'children_invalid'
        WHERE s.parent_id = parent AND s.step = of_step;
    END;
    UPDATE :schema.child_steps s SET plan = '' WHERE s.parent_id = parent AND s.step = of_step AND s.plan IS NOT NULL;
    UPDATE :schema.workflow_node_executions e SET variables = NULL WHERE e.execution_id = parent AND e.step = of_step;
END
$$;
