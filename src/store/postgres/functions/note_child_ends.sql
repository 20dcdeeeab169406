-- Notes the ends of children and of parents for advance_children(). Each caller checks first whether there are any. The ends of a
-- transaction are one note for each step, because a row for each end would cost as much as the end itself.
--   ids  of executions that have ended, or parents that were purged, in this transaction
-- Locks: none but its own rows. Callers: note_ends(), move_to_history(), purge_items().
CREATE OR REPLACE FUNCTION :schema.note_child_ends(ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    INSERT INTO :schema.child_notes (parent_id, step, positions)
    SELECT c.parent_id, c.step, array_agg(c.position) FROM :schema.children c WHERE c.child_id = ANY (ids)
    GROUP BY c.parent_id, c.step ORDER BY c.parent_id, c.step;
    INSERT INTO :schema.child_notes (parent_id, step)
    SELECT s.parent_id, s.step FROM :schema.child_steps s WHERE s.parent_id = ANY (ids) ORDER BY s.parent_id, s.step;
END
$$;
