-- Starts as many of the next children of a start step as max_parallel leaves room for, at most `starts`. Children that have ended at once
-- leave room for the next ones.
--   may_wait  whether children with keys may be tried: one such step whose rows are locked is enough for a call of the duty.
-- Returns how many have begun, were tried, have ended with this, and have completed. again: there is room for more, and they have rows.
-- waits: another transaction has locked rows of the next ones.
-- Locks: those of start_children() or start_keyed_children(). Caller: advance_child_step().
CREATE OR REPLACE FUNCTION :schema.start_more_children(held :schema.child_steps, starts integer, may_wait boolean, OUT started integer,
                                                       OUT tried integer, OUT ended integer, OUT completed integer, OUT again boolean,
                                                       OUT waits boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    has_keys constant boolean := EXISTS (SELECT 1 FROM :schema.children c WHERE c.parent_id = held.parent_id AND c.step = held.step
                                         AND c.position = held.started AND c.key IS NOT NULL);
    room integer;
    part record;
BEGIN
    started := 0; tried := 0; ended := 0; completed := 0; waits := false;
    LOOP
        room := least(held.max_parallel - (held.started - held.ended), held.planned - held.started);
        EXIT WHEN room <= 0 OR tried >= starts;
        IF has_keys AND NOT may_wait THEN
            waits := true;
            EXIT;
        ELSIF has_keys THEN
            SELECT s.* INTO part FROM :schema.start_keyed_children(held, least(room, starts - tried)) s;
        ELSE
            SELECT s.*, false AS is_locked INTO part FROM :schema.start_children(held, least(room, starts - tried)) s;
        END IF;
        started := started + part.started;
        tried := tried + part.started + part.ended;
        ended := ended + part.ended;
        completed := completed + part.completed;
        held.started := held.started + part.started + part.ended;
        held.ended := held.ended + part.ended;
        waits := part.is_locked;
        EXIT WHEN waits;
    END LOOP;
    again := room > 0 AND NOT waits;
END
$$;
