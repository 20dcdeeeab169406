-- Whether steps of the item ran at deaths of nodes and none has ended since the last handover (steps_ended_of()).
-- Locks: none. Callers: inbox(), schedule_state(), taken_rows().
CREATE OR REPLACE FUNCTION :schema.is_suspect(execution uuid, suspicion smallint, steps_ended integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN suspicion > 1 AND :schema.steps_ended_of(execution) <= steps_ended;
END
$$;
