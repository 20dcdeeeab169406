-- Moves the content of ended executions to the archive: params, steps, attempts, actions and events. Their rows of the history stay, so
-- lists, filters and keys do not change; the step of such a row becomes a row of archived_steps.
--   before         only those that ended before this time
--   behind, below  the range of ids, without its bounds
--   most, look     so many executions move, and so many rows are looked at, at most.
-- Returns the number, the last row that was looked at, and whether there may be more. An execution stays while a step of its parent may
-- need its result, or while its own plan of children was not read. A row that another transaction has locked stays for the next call.
-- Locks: the row of archive_state, where a second caller does nothing; the moved rows of the history.
-- Caller: archive_items (queries/archive.sql).
CREATE OR REPLACE FUNCTION :schema.archive_items(before bigint, behind uuid, below uuid, most integer, look integer,
                                                 OUT moved integer, OUT last_id uuid, OUT more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    ids uuid[];
BEGIN
    moved := 0;
    more := false;
    WITH looked AS MATERIALIZED (
        SELECT h.id, NOT h.archived AND h.finished_at < before
                     AND NOT EXISTS (SELECT 1 FROM :schema.child_steps s WHERE s.parent_id = h.id AND s.count IS NULL)
                     AND NOT EXISTS (SELECT 1 FROM :schema.children c
                                     JOIN :schema.child_steps p ON p.parent_id = c.parent_id AND p.step = c.step
                                     JOIN :schema.workflow_execution_queue q ON q.id = c.parent_id WHERE c.child_id = h.id) AS may
        FROM :schema.workflow_executions h WHERE h.id > behind AND h.id < below ORDER BY h.id LIMIT look
    ), placed AS (
        SELECT l.id, l.may, sum(l.may::integer) OVER (ORDER BY l.id) AS place FROM looked l
    )
    SELECT array_agg(n.id ORDER BY n.id) FILTER (WHERE n.may AND n.place <= most),
           (array_agg(n.id ORDER BY n.id DESC) FILTER (WHERE n.place <= most))[1],
           count(*) = look OR coalesce(max(n.place), 0) >= most
    INTO ids, last_id, more FROM placed n;
    IF ids IS NULL THEN
        RETURN; -- and nothing was locked
    END IF;
    PERFORM 1 FROM :schema.archive_state s WHERE s.id = 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        more := false;
        RETURN;
    END IF;
    ids := ARRAY(SELECT h.id FROM :schema.workflow_executions h WHERE h.id = ANY (ids) AND NOT h.archived
                 ORDER BY h.id FOR NO KEY UPDATE SKIP LOCKED);
    moved := cardinality(ids);
    IF moved = 0 THEN
        RETURN;
    END IF;
    PERFORM :schema.make_archive_months(ids);
    WITH gone AS (DELETE FROM :schema.execution_params p WHERE p.id = ANY (ids) RETURNING *)
    INSERT INTO :schema.archived_params SELECT * FROM gone;
    INSERT INTO :schema.archived_steps (execution_id, step, status, attempt, failures, exit_code, started_at, finished_at, node_id, fence,
                                        output, variables, error_code, error)
    SELECT h.id, h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, h.step_started_at, h.finished_at, h.node_id,
           h.fence, h.step_output, h.step_variables, h.step_error_code, h.step_error
    FROM :schema.workflow_executions h WHERE h.id = ANY (ids) AND h.step IS NOT NULL;
    WITH gone AS (DELETE FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY (ids))
    INSERT INTO :schema.archived_steps SELECT * FROM :schema.all_steps s WHERE s.execution_id = ANY (ids)
    ON CONFLICT DO NOTHING; -- the step of the history is its end
    WITH gone AS (DELETE FROM :schema.workflow_node_attempts a WHERE a.execution_id = ANY (ids) RETURNING *)
    INSERT INTO :schema.archived_attempts SELECT * FROM gone;
    WITH gone AS (DELETE FROM :schema.workflow_actions a WHERE a.execution_id = ANY (ids) RETURNING *)
    INSERT INTO :schema.archived_actions SELECT * FROM gone;
    WITH gone AS (DELETE FROM :schema.workflow_execution_events e WHERE e.execution_id = ANY (ids) RETURNING *)
    INSERT INTO :schema.archived_events SELECT * FROM gone;
    UPDATE :schema.workflow_executions h
    SET archived = true, step = NULL, step_status = NULL, step_attempt = NULL, step_failures = NULL, step_exit_code = NULL,
        step_started_at = NULL, step_output = NULL, step_variables = NULL, step_error_code = NULL, step_error = NULL
    WHERE h.id = ANY (ids);
    UPDATE :schema.archive_state s SET moved = s.moved + archive_items.moved, moved_at = :schema.store_time() WHERE s.id = 1;
END
$$;
