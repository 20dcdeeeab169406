-- Gives firings their executions, and removes those whose enqueue was refused. The arrays have an element for each firing.
--   executions     NULL: refused, for the reason in codes and errors, or dropped; with neither it is removed and counted nowhere
--
-- An execution with the planned id of the firing wins over a refusal: it was enqueued by a call that lost its settlement. A firing that
-- another node has settled is not counted again. One that was removed after it had been read is inserted again. But a newer one that is
-- settled, without the execution in the queue, shows that it was settled before. Of the executions before it only those that live stay.
-- Returns the place and the execution of each firing that has one.
-- Locks: the rows of the schedules, in the order of their ids. Caller: settle_schedule_firings (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.settle_schedule_firings(ids bigint[], workspace_ids bigint[], dues bigint[], executions uuid[],
                                                           is_dropped boolean[], codes text[], errors text[])
RETURNS TABLE (place bigint, execution_id uuid)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    o       record;
    changed bigint;
    was_triggered boolean;
BEGIN
    LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any row, see set_schedule()
    PERFORM 1 FROM :schema.schedules s WHERE s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE;
    FOR o IN SELECT u.* FROM unnest(ids, workspace_ids, dues, executions, is_dropped, codes, errors)
                             WITH ORDINALITY u (id, workspace_id, due, wanted, is_dropped, code, error, place) ORDER BY u.place LOOP
        execution_id := o.wanted;
        IF execution_id IS NULL THEN
            SELECT coalesce(f.execution_id, f.planned_id) INTO execution_id FROM :schema.schedule_firings f
            WHERE f.schedule_id = o.id AND f.workspace_id = o.workspace_id AND f.due_at = o.due
              AND (f.execution_id IS NOT NULL OR EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = f.planned_id)
                   OR EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = f.planned_id));
        END IF;
        IF execution_id IS NULL THEN
            DELETE FROM :schema.schedule_firings f
            WHERE f.schedule_id = o.id AND f.workspace_id = o.workspace_id AND f.due_at = o.due AND f.execution_id IS NULL
            RETURNING f.is_triggered INTO was_triggered;
            GET DIAGNOSTICS changed = ROW_COUNT;
            IF changed > 0 AND o.is_dropped THEN
                UPDATE :schema.schedules s SET dropped = s.dropped + 1 WHERE s.id = o.id;
            ELSIF changed > 0 AND o.code IS NOT NULL THEN
                UPDATE :schema.schedules s
                SET refused = s.refused + 1, refused_at = :schema.store_time(), error_code = o.code, error = o.error WHERE s.id = o.id;
                PERFORM :schema.note_refusal(o.id::integer, o.workspace_id::integer, o.due, was_triggered);
            END IF;
            CONTINUE;
        END IF;
        place := o.place;
        RETURN NEXT;
        INSERT INTO :schema.schedule_firings AS f (schedule_id, workspace_id, due_at, created_at, planned_id, execution_id)
        SELECT s.id, o.workspace_id, o.due, o.due, execution_id, execution_id FROM :schema.schedules s
        WHERE s.id = o.id
          AND (EXISTS (SELECT FROM :schema.schedule_firings r
                       WHERE r.schedule_id = o.id AND r.workspace_id = o.workspace_id AND r.due_at = o.due)
               OR EXISTS (SELECT FROM :schema.workflow_execution_queue q WHERE q.id = execution_id)
               OR NOT EXISTS (SELECT FROM :schema.schedule_firings r
                              WHERE r.schedule_id = o.id AND r.workspace_id = o.workspace_id AND r.due_at > o.due
                                AND r.execution_id IS NOT NULL))
        ON CONFLICT ON CONSTRAINT schedule_firings_pkey DO UPDATE SET execution_id = excluded.execution_id
        WHERE f.execution_id IS NULL
        RETURNING f.is_triggered INTO was_triggered;
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF changed > 0 THEN
            DELETE FROM :schema.schedule_firings f
            WHERE f.schedule_id = o.id AND f.workspace_id = o.workspace_id AND f.due_at < o.due AND f.execution_id IS NOT NULL
              AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = f.execution_id);
            UPDATE :schema.schedules s
            SET fired = s.fired + 1, last_due_at = o.due, last_execution_id = execution_id, fired_at = :schema.store_time()
            WHERE s.id = o.id;
            PERFORM :schema.end_refusals(o.id::integer, o.workspace_id::integer, o.due, was_triggered);
        END IF;
    END LOOP;
END
$$;
