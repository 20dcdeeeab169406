-- Does all that can be done for one start step: see advance_children().
--   positions  of children that have ended.
--   starts, cancels  at most so many.
--   may_plan  whether a plan, or a part of it, may be read; else the step gets a note again.
--   may_wait  whether children with keys may be tried, see start_more_children().
-- Returns in `planned` the work of a plan that was read (read_child_plan()), and of the rows that were made of it.
-- Locks: the row of the step, then those of start_more_children(), cancel_children() and end_child_wait(). Caller: advance_child_apart().
CREATE OR REPLACE FUNCTION :schema.advance_child_step(now_us bigint, parent uuid, of_step text, positions integer[], starts integer,
                                                      cancels integer, may_plan boolean, may_wait boolean, OUT started integer,
                                                      OUT cancelled integer, OUT settled integer, OUT again boolean,
                                                      OUT waits boolean, OUT tried integer, OUT planned integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    held :schema.child_steps;
    lives boolean;
    has_rest boolean; -- of the plan: its children have no rows yet
    part record;
BEGIN
    started := 0; cancelled := 0; settled := 0; again := false; waits := false; tried := 0; planned := 0;
    SELECT s.* INTO held FROM :schema.child_steps s WHERE s.parent_id = parent AND s.step = of_step FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF held.count IS NULL AND NOT may_plan THEN
        again := true;
        INSERT INTO :schema.child_notes (parent_id, step) VALUES (parent, of_step);
        RETURN;
    ELSIF held.count IS NULL THEN
        SELECT p.* INTO part FROM :schema.read_child_plan(now_us, parent, of_step) p;
        planned := part.work;
        IF NOT part.is_there THEN
            DELETE FROM :schema.child_steps s WHERE s.parent_id = parent AND s.step = of_step;
            RETURN;
        END IF;
        SELECT s.* INTO held FROM :schema.child_steps s WHERE s.parent_id = parent AND s.step = of_step;
    END IF;
    lives := EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = parent);
    has_rest := held.rest IS NOT NULL;
    held.rest := NULL; -- each call with `held` would read it
    IF has_rest AND may_plan AND (lives OR held.leaves OR held.planned = 0) THEN
        planned := planned - held.planned;
        held.planned := :schema.make_children(now_us, held);
        planned := planned + held.planned;
        has_rest := held.planned < held.count;
    END IF;
    -- Each child is looked up by its whole key. The planner assumes that a step has one child. So with the positions as a plain condition
    -- each call would read all children of the step and filter them. The id of an execution may be that of children of other steps.
    WITH ended AS (
        UPDATE :schema.children c
        SET status = coalesce((SELECT h.status FROM :schema.workflow_executions h WHERE h.id = c.child_id), 'LOST')
        WHERE c.ctid = ANY (ARRAY(SELECT k.ctid FROM unnest(positions) p (n)
                                  CROSS JOIN LATERAL (SELECT o.ctid FROM :schema.children o WHERE o.parent_id = parent
                                                      AND o.step = of_step AND o.position = p.n OFFSET 0) k))
              AND c.status IS NULL
        RETURNING c.status
    )
    SELECT count(*) AS ends, count(*) FILTER (WHERE e.status = 'COMPLETED') AS completes INTO part FROM ended e;
    held.ended := held.ended + part.ends;
    held.completed := held.completed + part.completes;
    IF NOT lives AND NOT held.leaves THEN
        has_rest := false;
        SELECT c.* INTO part FROM :schema.cancel_children(held, cancels) c;
        cancelled := part.cancelled;
        held.cancelled_to := part.next_position;
        waits := part.is_locked;
        again := held.cancelled_to < held.started AND NOT waits;
    ELSE
        SELECT s.* INTO part FROM :schema.start_more_children(held, starts, may_wait) s;
        started := part.started;
        tried := part.tried;
        waits := part.waits;
        again := part.again OR has_rest;
        held.started := held.started + part.tried;
        held.ended := held.ended + part.ended;
        held.completed := held.completed + part.completed;
    END IF;
    IF NOT has_rest AND NOT held.is_settled THEN -- the output of the step lists all of its children, and their ids are in their rows
        SELECT e.* INTO part FROM :schema.end_child_wait(now_us, held) e;
        held.is_settled := part.is_settled;
        settled := part.settled;
        waits := waits OR part.waits;
    END IF;
    UPDATE :schema.child_steps s
    SET started = held.started, ended = held.ended, completed = held.completed, cancelled_to = held.cancelled_to,
        is_settled = held.is_settled, planned = held.planned, rest = CASE WHEN has_rest THEN s.rest END
    WHERE s.parent_id = parent AND s.step = of_step;
    IF again OR waits THEN
        INSERT INTO :schema.child_notes (parent_id, step) VALUES (parent, of_step);
    ELSIF NOT lives AND (held.ended >= held.count OR NOT held.leaves)
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = parent) THEN
        DELETE FROM :schema.children c WHERE c.parent_id = parent AND c.step = of_step;
        DELETE FROM :schema.child_steps s WHERE s.parent_id = parent AND s.step = of_step;
    END IF;
END
$$;
