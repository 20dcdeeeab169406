-- Locks the schedules of firings, in the order of their ids, and returns for each place whether its firing still waits. Until the
-- commit no other transaction removes one: it waits for the schedule, and then finds the execution that was enqueued meanwhile
-- (adopt_firings()). The arrays have an element for each firing.
--   planned   the ids of their executions: a firing of the same time that was inserted anew is another one
-- Locks: the table schedules, and their rows. Caller: lock_firings (queries/enqueue.sql).
CREATE OR REPLACE FUNCTION :schema.lock_firings(schedule_ids bigint[], workspace_ids bigint[], dues bigint[], planned uuid[])
RETURNS TABLE (place bigint, waits boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any row, see set_schedule()
    PERFORM 1 FROM :schema.schedules s WHERE s.id = ANY (schedule_ids) ORDER BY s.id FOR NO KEY UPDATE;
    RETURN QUERY
        SELECT u.place, EXISTS (SELECT 1 FROM :schema.schedule_firings f
                                WHERE f.schedule_id = u.schedule_id AND f.workspace_id = u.workspace_id AND f.due_at = u.due
                                  AND f.planned_id = u.planned AND f.execution_id IS NULL)
        FROM unnest(schedule_ids, workspace_ids, dues, planned) WITH ORDINALITY u (schedule_id, workspace_id, due, planned, place);
END
$$;
