-- Whether a wait on record, of a step with this signal and error code, is of the kind `wanted`; NULL = a sleep or a wait for the next
-- attempt. A wait for the next attempt has the code of the last one, a sleep has none. No wake ends the wait for an approval: with a
-- default that would be the decision of an actor who may not decide. Locks: none. Caller: wake_steps().
CREATE OR REPLACE FUNCTION :schema.is_wanted_wait(wanted text, signal text, error_code text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN wanted IS NULL THEN signal IS NULL
                ELSE wanted = CASE WHEN signal LIKE 'approve:%' THEN '' WHEN signal LIKE 'callback:%' THEN 'callback'
                                   WHEN signal LIKE 'children:%' THEN 'child' WHEN signal LIKE 'manual:%' THEN 'manual'
                                   WHEN signal IS NOT NULL THEN 'signal'
                                   WHEN error_code IS NULL THEN 'sleep' ELSE 'retry' END END
$$;
