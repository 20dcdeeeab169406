-- Moves the due time of a schedule on, and inserts the firings of the times that fire; or the next part of the firings of one time.
--   due            as it was read: a schedule that has another one by now, or is paused, is left alone
--   continues      the time with firings in parts, as it was read; 9223372036854775807 = none
--   fires          the times that fire, ascending; those that are too many for a part stay due
--   next           the new due time; 9223372036854775807 = none
--   dropped, passed  times that were too old, and times that are skipped in each workspace
--   code, error    why the times cannot be computed, or the firings not be inserted; NULL
--   retry          when it is tried again; 0 = does not apply
--   part, most     firings of a part, and firings that may wait in a workspace
-- Returns whether the schedule was moved, and the counts of insert_firings(). Locks: its row. Caller: advance_schedule
-- (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.advance_schedule(of_schedule integer, due bigint, continues bigint, fires bigint[], next bigint,
                                                    dropped bigint, passed bigint, code text, error text, retry bigint, part integer,
                                                    most integer, OUT is_done boolean, OUT firings bigint, OUT skipped bigint,
                                                    OUT rest bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    never      constant bigint := 9223372036854775807;
    s          record;
    i          record;
    workspaces bigint;
    times      bigint := 0;
BEGIN
    firings := 0;
    skipped := 0;
    rest := 0;
    LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any row, see set_schedule()
    SELECT x.* INTO s FROM :schema.schedules x WHERE x.id = of_schedule FOR NO KEY UPDATE;
    is_done := CASE WHEN continues <> never THEN s.expands_at = continues
                    ELSE s.due_at = due AND NOT s.paused AND s.expands_at IS NULL END IS TRUE;
    IF NOT is_done THEN
        RETURN;
    END IF;
    IF continues = never AND code IS NULL THEN
        workspaces := coalesce(cardinality(s.workspaces), (SELECT count(*) FROM :schema.workspaces w WHERE w.plan = s.plan));
        skipped := passed * workspaces;
        times := least(cardinality(fires), greatest(part / greatest(workspaces, 1), 1));
        next := CASE WHEN times < cardinality(fires) THEN fires[times + 1] ELSE next END;
    END IF;
    UPDATE :schema.schedules x
    SET due_at = CASE WHEN continues = never THEN nullif(next, never) ELSE x.due_at END, retry_at = nullif(retry, 0),
        dropped = x.dropped + advance_schedule.dropped, skipped = x.skipped + advance_schedule.skipped,
        refused_at = CASE WHEN code IS NULL THEN x.refused_at ELSE :schema.store_time() END,
        error_code = coalesce(code, x.error_code), error = CASE WHEN code IS NULL THEN x.error ELSE advance_schedule.error END
    WHERE x.id = of_schedule;
    IF code IS NULL AND continues <> never THEN
        SELECT f.* INTO i
        FROM :schema.insert_firings(of_schedule, continues, s.expands_triggered, NULL, s.expands_refused,
                                    'schedule/' || s.name || '/' || :schema.rfc3339(continues), s.expanded_to, 0, part, most) f;
        firings := i.firings;
        skipped := i.skipped;
        rest := i.rest;
    END IF;
    FOR t IN 1..times LOOP
        SELECT f.* INTO i FROM :schema.insert_firings(of_schedule, fires[t], false, NULL, false, NULL, 0, t - 1, part, most) f;
        firings := firings + i.firings;
        skipped := skipped + i.skipped;
        rest := i.rest;
    END LOOP;
END
$$;
