-- Does all that can be done for one start step: see advance_children().
--   positions  of children that have ended.
--   starts, cancels  at most so many.
--   may_plan  whether a plan may be read; else the step gets a note again.
--   may_wait  whether children with keys may be tried, see start_more_children().
-- Returns in `planned` the work of a plan that was read (read_child_plan()).
-- Locks: the row of the step, then those of start_more_children(), cancel_children() and settle_children(). Caller: advance_children().
CREATE OR REPLACE FUNCTION :schema.advance_child_step(now_us bigint, parent uuid, of_step text, positions integer[], starts integer,
                                                      cancels integer, may_plan boolean, may_wait boolean, OUT started integer,
                                                      OUT cancelled integer, OUT settled integer, OUT again boolean,
                                                      OUT waits boolean, OUT tried integer, OUT planned integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    held :schema.child_steps;
    lives boolean;
    part record;
    failed integer;
    is_over boolean;
    is_completed boolean;
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
    lives := EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = parent);
    IF NOT lives AND NOT held.leaves THEN
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
        again := part.again;
        held.started := held.started + part.tried;
        held.ended := held.ended + part.ended;
        held.completed := held.completed + part.completed;
    END IF;
    failed := held.ended - held.completed;
    is_completed := CASE WHEN held.problem IS NOT NULL THEN false WHEN held.waits_for_all OR held.wanted = 0 THEN failed = 0
                         ELSE held.completed >= held.wanted END;
    is_over := CASE WHEN held.problem IS NOT NULL OR held.wanted = 0 THEN true WHEN held.waits_for_all THEN held.ended = held.count
                    ELSE is_completed OR failed > held.count - held.wanted END;
    IF is_over AND NOT held.is_settled THEN
        -- A signal for which no state waits (any more) would stay for ever. The wait is on record with the plan of the action.
        IF held.plan IS NOT NULL AND NOT EXISTS (SELECT 1 FROM :schema.workflow_node_executions e WHERE e.execution_id = parent
                                                 AND e.step = 'state' AND e.signal = 'children:' || of_step) THEN
            held.is_settled := true;
        ELSE
            SELECT s.* INTO part FROM :schema.settle_children(now_us, held, is_completed) s;
            held.is_settled := part.is_over;
            settled := part.is_sent::integer;
            waits := waits OR NOT part.is_over;
        END IF;
    END IF;
    UPDATE :schema.child_steps s
    SET started = held.started, ended = held.ended, completed = held.completed, cancelled_to = held.cancelled_to,
        is_settled = held.is_settled
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
