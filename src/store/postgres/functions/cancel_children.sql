-- Cancels the children of a start step that have begun, in the order of their positions, at most `most`, which may be 0: its parent has
-- ended.
-- Returns how many were cancelled, from which position on the next call goes on, and whether a row was locked by another transaction.
-- Locks: rows that no other transaction has locked. Caller: advance_child_step().
CREATE OR REPLACE FUNCTION :schema.cancel_children(held :schema.child_steps, most integer, OUT cancelled integer, OUT next_position integer,
                                                   OUT is_locked boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    places integer[];
    ids uuid[];
    mine uuid[];
    locked integer;
BEGIN
    cancelled := 0; next_position := held.cancelled_to; is_locked := false;
    IF most <= 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(n.position ORDER BY n.position), array_agg(n.child_id ORDER BY n.position) INTO places, ids
    FROM (SELECT c.position, c.child_id FROM :schema.children c
          WHERE c.parent_id = held.parent_id AND c.step = held.step AND c.position >= held.cancelled_to AND c.position < held.started
            AND c.status IS NULL ORDER BY c.position LIMIT most) n;
    mine := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids) ORDER BY q.id FOR UPDATE SKIP LOCKED);
    SELECT min(u.position) INTO locked
    FROM unnest(places, ids) u (position, id) JOIN :schema.workflow_execution_queue q ON q.id = u.id
    WHERE q.id = ANY (ids) AND u.id <> ALL (mine);
    mine := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (mine) AND q.cancel_at IS NULL ORDER BY q.id);
    IF mine <> '{}' THEN
        PERFORM :schema.cancel_items(mine, NULL, 'its parent has ended');
    END IF;
    cancelled := cardinality(mine);
    is_locked := locked IS NOT NULL;
    next_position := coalesce(locked, CASE WHEN cardinality(places) = most THEN places[most] + 1 ELSE held.started END);
END
$$;
