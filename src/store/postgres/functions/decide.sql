-- The decision of a caller in SQL; its refusals are raised, so they leave no row of the record of acts. That of an actor is in the log of
-- the server.
-- Locks: those of decide_step(). Callers: approve(), reject().
CREATE OR REPLACE FUNCTION :schema.decide(execution_id uuid, step text, approved boolean, comment text, reason text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    sent record;
    first json;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    IF octet_length(comment) > 2000 THEN
        PERFORM :schema.refuse('invalid_argument', 'a comment is UTF-8 of at most 2000 bytes', NULL);
    END IF;
    SELECT * INTO sent FROM :schema.decide_step(execution_id, step, approved, comment, :schema.actor(), reason);
    IF sent.outcome IN ('decided', 'earlier') THEN
        first := sent.who::json;
        PERFORM :schema.refuse('illegal_state',
                               format('step %s of execution %s was %s already, by %s at %s%s%s', sent.step, execution_id,
                                      CASE WHEN (first ->> 'approved')::boolean THEN 'approved' ELSE 'rejected' END, first ->> 'by',
                                      first ->> 'at', CASE WHEN (first ->> 'is_unused')::boolean
                                                           THEN '; not counted: the step had ended before' ELSE '' END,
                                      CASE WHEN first ->> 'state' IN ('COMPLETED', 'FAILED', 'CANCELLED')
                                           THEN '; the execution is ' || (first ->> 'state') ELSE '' END),
                               CASE sent.outcome WHEN 'earlier' THEN 'if another step is meant, name it: ' || sent.waiting END);
    ELSIF sent.outcome = 'late' THEN
        PERFORM :schema.refuse('illegal_state', format('the timeout of step %s of execution %s has passed', sent.step, execution_id),
                               'weir show tells what follows from that');
    ELSIF sent.outcome = 'forbidden' THEN
        -- The exception undoes the record of the act, so the log of the server keeps the attempt.
        RAISE LOG '% was refused to decide step % of execution %', :schema.actor(), sent.step, execution_id;
        PERFORM :schema.refuse('not_permitted', format('%s may not decide step %s of execution %s', :schema.actor(), sent.step,
                                                       execution_id), 'these may: ' || left(sent.who, 600));
    ELSIF sent.outcome = 'several' THEN
        PERFORM :schema.refuse('illegal_state', format('several steps of execution %s wait for an approval', execution_id),
                               'name one of them: ' || sent.who);
    ELSIF sent.outcome = 'temporal' THEN
        PERFORM :schema.refuse('illegal_state',
                               format('execution %s is of a workflow on Temporal, which has no steps to approve', execution_id),
                               format('its worker waits in its own code: `weir signal %s NAME` and `weir temporal update %s NAME` '
                                      'reach it', execution_id, execution_id));
    ELSIF sent.outcome = 'none' THEN
        PERFORM :schema.refuse('illegal_state', format('no such step of execution %s waits for an approval', execution_id),
                               '`weir why` shows what it waits for');
    ELSIF sent.outcome <> 'sent' THEN
        PERFORM :schema.refuse_act(execution_id, sent.outcome, 'it has ended and takes no signal');
    END IF;
    RETURN sent.step;
END
$$;

REVOKE ALL ON FUNCTION :schema.decide(uuid, text, boolean, text, text) FROM PUBLIC;
