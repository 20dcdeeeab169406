-- The same as advance_child_step(). A step that `may_fail` is worked on in a subtransaction. Then a fault of its rows undoes this step
-- alone, its notes are put back for a later call, and `fault` has the text of the error. Otherwise the error is raised.
-- Locks: those of advance_child_step(). Caller: advance_children().
CREATE OR REPLACE FUNCTION :schema.advance_child_apart(now_us bigint, parent uuid, of_step text, positions integer[], starts integer,
                                                       cancels integer, may_plan boolean, may_wait boolean, may_fail boolean,
                                                       OUT started integer,
                                                       OUT cancelled integer, OUT settled integer, OUT again boolean, OUT waits boolean,
                                                       OUT tried integer, OUT planned integer, OUT fault text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF NOT may_fail THEN
        SELECT a.* INTO started, cancelled, settled, again, waits, tried, planned
        FROM :schema.advance_child_step(now_us, parent, of_step, positions, starts, cancels, may_plan, may_wait) a;
        RETURN;
    END IF;
    BEGIN
        SELECT a.* INTO started, cancelled, settled, again, waits, tried, planned
        FROM :schema.advance_child_step(now_us, parent, of_step, positions, starts, cancels, may_plan, may_wait) a;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR raise_exception THEN
        started := 0; cancelled := 0; settled := 0; again := false; waits := false; tried := 0; planned := 0;
        fault := format('step %s of execution %s: %s', of_step, parent, left(SQLERRM, 300));
        INSERT INTO :schema.child_notes (parent_id, step) VALUES (parent, of_step);
        INSERT INTO :schema.child_notes (parent_id, step, positions) SELECT parent, of_step, positions WHERE positions IS NOT NULL;
    END;
END
$$;
