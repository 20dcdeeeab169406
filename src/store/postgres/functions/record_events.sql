-- As record(), for sets that need rows of their own in the history. Every other set goes to record(). Such a set has a claim that ends
-- before its execution, an execution with an earlier claim that was lost or given back, or a second attempt of a step.
--   taken_over       of each record: an earlier claim of the item was lost or given back
--   attempt_records  the records that must take effect for the lost attempts of the next arrays to be kept
--
-- 1. Read the rows that a put-back, a give-back or a start under a later claim is about to change. That is right when a record takes
--    effect, because only the holder of a fence changes them. Parks and ends write their events themselves (record_parks(), record_ends()).
-- 2. Find the sleeps that end with their execution. They need no look at earlier attempts: each is the only step on record of its
--    execution. Read the unfinished steps of executions that may have earlier ones: with an earlier claim, or a later attempt. No other
--    has any.
-- 3. Record the set.
-- 4. Write the events and the attempts that the records have replaced.
-- 5. Close the steps that executions have left unfinished at their end. They are those of step 2 that no record ends. So are those of an
--    item that a requested cancel ended in the place of its park.
-- Locks: those of record(). Callers: complete(), record_events (queries/record.sql).
CREATE OR REPLACE FUNCTION :schema.record_events(recorder bigint, ids uuid[], fences bigint[], kinds integer[], delays bigint[],
                                                started_ago bigint[], codes text[], errors text[], end_steps text[], end_states text[],
                                                end_attempts integer[], end_failures integer[], end_exit_codes integer[],
                                                end_began_ago bigint[], end_outputs bytea[], end_variables bytea[], end_codes text[],
                                                end_errors text[], step_records integer[], steps text[], step_states text[],
                                                step_attempts integer[], step_failures integer[], exit_codes integer[], began_ago bigint[],
                                                due_ins bigint[], step_ends boolean[], outputs bytea[], variables bytea[],
                                                step_codes text[], step_errors text[], taken_over boolean[], attempt_records integer[],
                                                attempt_steps text[], attempts integer[], attempt_states text[],
                                                attempt_exit_codes integer[], attempt_codes text[], attempt_errors text[],
                                                step_signals text[] DEFAULT '{}', signal_records integer[] DEFAULT '{}',
                                                signal_steps text[] DEFAULT '{}', signal_seqs bigint[] DEFAULT '{}',
                                                action_records integer[] DEFAULT '{}', actions text[] DEFAULT '{}',
                                                park_starts bigint[] DEFAULT '{}', ended_ago bigint[] DEFAULT '{}')
RETURNS TABLE (place integer, outcome text, slots_freed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    done   integer[] := ARRAY(SELECT n FROM generate_subscripts(ids, 1) n);
    ended_in_place integer[] := '{}';
    earlier uuid[]; sleeps integer[];
    answer record; held record; begun record; over record;
BEGIN
    SELECT array_agg(r.n::integer) AS places, array_agg(q.node_id) AS nodes, array_agg(q.claimed_at) AS claims, -- step 1
           array_agg(q.interruptions) AS interruptions,
           array_agg(:schema.put_back_is_repeated(q.id, r.kind, q.deferrals, q.interruptions, r.code, q.error_code)) AS repeats
    INTO held
    FROM unnest(ids, fences, kinds, codes, taken_over) WITH ORDINALITY r (id, fence, kind, code, taken_over, n)
    JOIN :schema.workflow_execution_queue q ON q.id = r.id
    WHERE kinds && '{0,1,2,3,9}' AND q.id = ANY (ids) AND q.fence = r.fence AND q.phase + 0 = 2
      AND (r.kind IN (1, 2, 3, 9) OR r.kind = 0 AND r.taken_over);
    sleeps := :schema.slept_steps(ids, kinds, taken_over, step_records, steps, step_states, step_attempts, step_failures, exit_codes,
                                  outputs, variables, step_codes, step_errors, step_signals);
    IF true = ANY (taken_over) AND cardinality(sleeps) IS DISTINCT FROM cardinality(ids) OR 1 < ANY (step_attempts || end_attempts) THEN
        SELECT array_agg(r.id) INTO earlier -- step 2
        FROM (SELECT u.id FROM unnest(ids, taken_over) WITH ORDINALITY u (id, taken_over, n)
              WHERE u.taken_over AND (u.n IN (SELECT step_records[e] FROM unnest(sleeps) e)) IS NOT TRUE
              UNION SELECT ids[s.place] FROM unnest(step_records, step_attempts) s (place, attempt) WHERE s.attempt > 1
              UNION SELECT e.id FROM unnest(ids, end_attempts) e (id, attempt) WHERE e.attempt > 1) r;
    END IF;
    SELECT array_agg(s.place) AS places, array_agg(o.step) AS steps, array_agg(o.status) AS states, array_agg(o.attempt) AS attempts,
           array_agg(s.attempt) AS followed_by, array_agg(o.started_at) AS starts, array_agg(coalesce(o.start_node_id, o.node_id)) AS nodes,
           array_agg(coalesce(o.start_fence, o.fence)) AS fences,
           array_agg(o.execution_id) FILTER (WHERE s.ends IS NOT TRUE) AS unfinished
    INTO begun
    FROM :schema.workflow_node_executions o
    LEFT JOIN (SELECT u.place, u.step, u.attempt, ids[u.place] AS id, u.ends
               FROM unnest(step_records, steps, step_attempts, step_ends) u (place, step, attempt, ends)
               UNION ALL
               SELECT e.n::integer, e.step, e.attempt, e.id, true
               FROM unnest(ids, end_steps, end_attempts) WITH ORDINALITY e (id, step, attempt, n)) s
      ON s.id = o.execution_id AND s.step = o.step
    WHERE earlier IS NOT NULL AND o.execution_id = ANY (earlier) AND o.finished_at IS NULL;
    FOR answer IN -- step 3
        SELECT r.place, r.outcome, r.slots_freed
        FROM :schema.record(recorder, ids, fences, kinds, delays, started_ago, codes, errors, end_steps, end_states, end_attempts,
                            end_failures, end_exit_codes, end_began_ago, end_outputs, end_variables, end_codes, end_errors, step_records,
                            steps, step_states, step_attempts, step_failures, exit_codes, began_ago, due_ins, step_ends, outputs,
                            variables, step_codes, step_errors, step_signals, signal_records, signal_steps, signal_seqs, action_records,
                            actions, park_starts, ended_ago, sleeps) r
    LOOP
        place := answer.place;
        outcome := answer.outcome;
        slots_freed := answer.slots_freed;
        IF answer.outcome = 'cancelled' THEN
            ended_in_place := ended_in_place || answer.place;
        ELSE
            done := array_remove(done, answer.place);
        END IF;
        RETURN NEXT;
    END LOOP;
    IF held.places IS NOT NULL THEN -- step 4
        PERFORM :schema.event_rows(now_us, done, ids, fences, kinds, started_ago, codes, held.places, held.nodes, held.claims,
                                     held.interruptions, held.repeats);
    END IF;
    IF cardinality(attempt_records) > 0 OR 'RUNNING' = ANY (begun.states) THEN
        PERFORM :schema.event_attempts(recorder, now_us, done, ids, fences, attempt_records, attempt_steps, attempts, attempt_states,
                                       attempt_exit_codes, attempt_codes, attempt_errors, begun.places, begun.steps, begun.states,
                                       begun.attempts, begun.followed_by, begun.starts, begun.nodes, begun.fences);
    END IF;
    IF begun.unfinished IS NOT NULL OR cardinality(ended_in_place) > 0 THEN -- step 5
        SELECT array_agg(h.id) AS ids, array_agg(h.fence) AS fences INTO over
        FROM unnest(ids, kinds) WITH ORDINALITY r (id, kind, n) JOIN :schema.workflow_executions h ON h.id = r.id
        WHERE h.id = ANY (ids) AND r.n = ANY (done) AND (r.kind IN (4, 6, 7, 8) OR r.n = ANY (ended_in_place))
          AND (h.interruptions > 0 OR r.kind = 10) AND h.slept_until IS NULL;
        IF over.ids IS NOT NULL THEN
            PERFORM :schema.close_steps(over.ids, over.fences, now_us);
        END IF;
    END IF;
END
$$;
