-- Ends the wait of a start step: its parent gets the signal that the step waits for, with the output or the failure of the step.
-- The failure is `problem` of the step, or that of the first child that did not complete.
--   is_over  false: another transaction has locked the row of the parent
--   is_sent  false: or the parent has ended, and gets nothing
-- The output has at most 1 MiB; without the outputs of the children if these are larger.
-- Locks: the row of the parent, unless it is locked. Caller: end_child_wait().
CREATE OR REPLACE FUNCTION :schema.settle_children(now_us bigint, held :schema.child_steps, is_completed boolean,
                                                   OUT is_over boolean, OUT is_sent boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    output_most constant integer := 1048576; -- STEP_OUTPUT_BYTES_MAX in queue/limits.h
    parent :schema.workflow_execution_queue;
    code text := held.problem;
    message text := CASE held.problem
        WHEN 'children_too_deep' THEN '16 parents are above each other, and that is the limit; a workflow that starts itself needs an end'
        WHEN 'children_queue_full' THEN 'the workspace has 10000 pending executions more than it may have, so a child starts no children'
        WHEN 'children_too_many' THEN 'the steps of one execution may start 100000 children in all'
        WHEN 'child_key_reserved' THEN 'the key of a child begins with "hook/" or "schedule/": begin it with another word'
        WHEN 'children_too_large' THEN 'the params of a child are larger than 1 MiB'
        ELSE 'the plan of the children cannot be read' END;
    no_text constant text := '{"code":"children_invalid","error":"the step has no children on record"}';
    text_of text;
BEGIN
    is_sent := false;
    SELECT q.* INTO parent FROM :schema.workflow_execution_queue q WHERE q.id = held.parent_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        is_over := NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = held.parent_id);
        RETURN;
    END IF;
    IF is_completed THEN
        -- The steps of a child are looked up once, and only if it has more than the one of its own row. A large output stays where it is
        -- until it is known that all of them fit. Short children are at least as long as assumed here without their outputs.
        WITH child AS MATERIALIZED (
            SELECT c.position, c.child_id,
                   CASE WHEN c.status IS DISTINCT FROM 'COMPLETED' THEN NULL
                        WHEN h.step IS NOT NULL AND NOT h.archived
                             AND NOT EXISTS (SELECT 1 FROM :schema.workflow_node_executions e WHERE e.execution_id = h.id)
                        THEN h.step_output
                        ELSE (SELECT s.output FROM :schema.execution_steps s WHERE s.execution_id = c.child_id
                              ORDER BY s.started_at DESC, s.step DESC LIMIT 1) END AS output,
                   CASE WHEN c.status = 'COMPLETED' AND h.id IS NULL THEN 'LOST' ELSE coalesce(c.status, 'OPEN') END AS state
            FROM :schema.children c
            LEFT JOIN :schema.workflow_executions h ON h.id = c.child_id
            WHERE c.parent_id = held.parent_id AND c.step = held.step
        ), room AS MATERIALIZED (
            SELECT coalesce(sum(octet_length(c.output)), 0) <= output_most - 100 * held.count - 32 AS has_outputs FROM child c
        )
        SELECT string_agg('{"id":"' || c.child_id || '","status":"' || c.state || '"'
                          || CASE WHEN r.has_outputs THEN ',"output":' || coalesce(convert_from(c.output, 'UTF8'), 'null') ELSE '' END
                          || '}', ',' ORDER BY c.position) INTO text_of
        FROM child c CROSS JOIN room r;
        text_of := CASE WHEN held.is_single THEN '{"output":' || text_of || '}' ELSE '{"output":[' || text_of || ']}' END;
    ELSE
        IF code IS NULL THEN
            SELECT CASE c.status WHEN 'REFUSED' THEN 'child_refused' WHEN 'LOST' THEN 'child_lost' ELSE 'child_failed' END,
                   format('child %s is %s', c.child_id, c.status) || coalesce(': ' || coalesce(c.error_code, h.error_code), '')
                   || coalesce(': ' || coalesce(c.error, h.error), '')
            INTO code, message
            FROM :schema.children c LEFT JOIN :schema.workflow_executions h ON h.id = c.child_id
            WHERE c.parent_id = held.parent_id AND c.step = held.step AND c.status <> 'COMPLETED' ORDER BY c.position LIMIT 1;
        END IF;
        text_of := json_build_object('code', coalesce(code, 'child_failed'), 'error', left(coalesce(message, ''), 2000));
    END IF;
    PERFORM :schema.put_signal(now_us, parent, 'children:' || held.step, coalesce(text_of, no_text));
    is_over := true;
    is_sent := true;
END
$$;
