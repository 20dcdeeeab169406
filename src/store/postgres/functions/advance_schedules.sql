-- Moves due times of schedules on, and inserts the firings of those that fire. The arrays have an element for each schedule.
--   dues       as they were read: a schedule that has another one by now, or is paused, is left alone
--   fires, nexts   the time that fires and the new due time; 9223372036854775807 = none
--   codes, errors  why the times of a schedule cannot be computed; NULL
--   retries    when a schedule whose times cannot be computed is tried again; 0 = does not apply
--   most       firings that may wait in a workspace
-- Returns a row for each schedule that was moved: its place, and the counts of insert_firings(). Locks: the rows of the schedules, in the
-- order of their ids. Caller: advance_schedules (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.advance_schedules(ids bigint[], dues bigint[], fires bigint[], nexts bigint[], dropped bigint[],
                                                     codes text[], errors text[], retries bigint[], most integer)
RETURNS TABLE (place bigint, firings bigint, skipped bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    never constant bigint := 9223372036854775807;
    a record;
BEGIN
    FOR a IN SELECT u.* FROM unnest(ids, dues, fires, nexts, dropped, codes, errors, retries)
                             WITH ORDINALITY u (id, due, fire, next, drops, code, error, retry, place) ORDER BY u.id LOOP
        UPDATE :schema.schedules s
        SET due_at = nullif(a.next, never), retry_at = nullif(a.retry, 0), dropped = s.dropped + a.drops,
            refused_at = CASE WHEN a.code IS NULL THEN s.refused_at ELSE :schema.store_time() END,
            error_code = coalesce(a.code, s.error_code), error = CASE WHEN a.code IS NULL THEN s.error ELSE a.error END
        WHERE s.id = a.id AND s.due_at = a.due AND NOT s.paused;
        CONTINUE WHEN NOT FOUND;
        place := a.place;
        firings := 0;
        skipped := 0;
        IF a.fire <> never THEN
            SELECT i.firings, i.skipped INTO firings, skipped FROM :schema.insert_firings(a.id::integer, a.fire, false, most) i;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
