-- Whether a put-back (kind as in record()) would repeat the last one on record. That is a put-back without a counter, or a deferral after
-- the first one, with the same error code. Not so after a handover: the events would show the slot as taken until the next claim.
-- Locks: none. Callers: record_put_backs(), record_events().
CREATE OR REPLACE FUNCTION :schema.put_back_is_repeated(id uuid, kind integer, deferrals integer, interruptions integer, code text,
                                                        old_code text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF (kind = 3 OR kind = 2 AND deferrals > 0) IS NOT TRUE OR (code = old_code) IS NOT TRUE THEN
        RETURN false;
    END IF;
    RETURN interruptions = 0
        OR (SELECT e.event FROM :schema.workflow_execution_events e
            WHERE e.execution_id = put_back_is_repeated.id AND e.event IN ('retry', 'defer', 'put_back', 'hand_over', 'give_back')
            ORDER BY e.seq DESC LIMIT 1) IN ('retry', 'defer', 'put_back');
END
$$;
