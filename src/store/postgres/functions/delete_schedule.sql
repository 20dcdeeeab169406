-- Removes a schedule and its firings. Returns 'ok', 'not_found', or 'illegal_state': a definition owns it, and `owner` names that.
-- Locks: the removed rows. Caller: delete_schedule (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.delete_schedule(schedule_name text, actor text, why text, OUT status text, OUT owner text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    removed record;
BEGIN
    LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any row, see set_schedule()
    SELECT s.id, s.definition_owner, s.workflow INTO removed FROM :schema.schedules s WHERE s.name = schedule_name FOR UPDATE;
    IF NOT FOUND THEN
        status := 'not_found';
        RETURN;
    END IF;
    owner := :schema.definition_of_schedule(removed.definition_owner, removed.workflow);
    IF owner IS NOT NULL THEN
        status := 'illegal_state';
        RETURN;
    END IF;
    PERFORM :schema.remove_schedule(removed.id, actor, why);
    status := 'ok';
END
$$;
