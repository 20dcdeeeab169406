-- Makes rows of the next children of a start step, so many as it has already, and child_part() at first. So the first ones run while the
-- plan of the others is read. The whole plan is read each time, so its parts grow. Returns the place in the plan from which the next call
-- goes on.
-- Locks: none but its own rows; the row of the step is locked. Caller: advance_child_step().
CREATE OR REPLACE FUNCTION :schema.make_children(now_us bigint, held :schema.child_steps) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    upto constant integer := least(held.count, held.planned + greatest(held.planned, :schema.child_part()));
    rest constant json := (SELECT convert_from(s.rest, 'UTF8')::json FROM :schema.child_steps s
                           WHERE s.parent_id = held.parent_id AND s.step = held.step);
    keys constant text[] := ARRAY(SELECT k.key FROM json_array_elements_text(rest -> 'keys') WITH ORDINALITY k (key, n) ORDER BY k.n);
    new_ids constant uuid[] := :schema.make_ids(now_us, upto - held.planned);
    made integer;
BEGIN
    INSERT INTO :schema.children (parent_id, step, position, child_id, params, key)
    SELECT held.parent_id, held.step, c.n - 1, new_ids[c.n - held.planned], convert_to(nullif(c.params::text, '{}'), 'UTF8'), keys[c.n]
    FROM json_array_elements(rest -> 'children') WITH ORDINALITY c (params, n) WHERE c.n > held.planned AND c.n <= upto;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made <> upto - held.planned THEN
        RAISE EXCEPTION USING ERRCODE = 'data_exception', MESSAGE = format('the plan has no children %s to %s', held.planned, upto - 1);
    END IF;
    RETURN upto;
END
$$;
