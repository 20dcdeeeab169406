-- Gives the waiting firings of a schedule with a lost settlement their executions, and ends refusals as their settlement would. Called
-- before waiting firings are removed, because an execution without a firing would be hidden from the overlap policy. Of the workspaces
-- behind `behind`, until `until`. The caller has locked the row of the schedule. Callers: insert_firings(), pause_schedule(),
-- remove_firings_beside_one().
CREATE OR REPLACE FUNCTION :schema.adopt_firings(of_schedule integer, behind integer, until integer) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    a       record;
    adopted bigint := 0;
BEGIN
    FOR a IN UPDATE :schema.schedule_firings f SET execution_id = f.planned_id
             WHERE f.schedule_id = of_schedule AND f.workspace_id > behind AND f.workspace_id <= until AND f.execution_id IS NULL
               AND (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = f.planned_id)
                    OR EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = f.planned_id))
             RETURNING f.workspace_id, f.due_at, f.is_triggered LOOP
        adopted := adopted + 1;
        PERFORM :schema.end_refusals(of_schedule, a.workspace_id, a.due_at, a.is_triggered);
    END LOOP;
    IF adopted > 0 THEN
        UPDATE :schema.schedules s
        SET fired = s.fired + adopted, fired_at = :schema.store_time(),
            (last_due_at, last_execution_id) = (SELECT f.due_at, f.execution_id FROM :schema.schedule_firings f
                                                WHERE f.schedule_id = of_schedule AND f.execution_id IS NOT NULL
                                                ORDER BY f.due_at DESC LIMIT 1)
        WHERE s.id = of_schedule;
    END IF;
END
$$;
