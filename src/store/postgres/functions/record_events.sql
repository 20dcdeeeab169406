-- As record(), for sets that need rows of their own in the history. Every other set goes to record(). Such a set has a claim that ends
-- before its execution, an execution with an earlier claim that was lost or given back, or a second attempt of a step.
--   taken_over       of each record: an earlier claim of the item was lost or given back
--   attempt_records  the records that must take effect for the lost attempts of the next arrays to be kept
--
-- The rows are read before the records. That is right when a record takes effect, because only the holder of a fence changes them.
-- Locks: those of record(). Caller: record_events (queries/record.sql).
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
                                                action_records integer[] DEFAULT '{}', actions text[] DEFAULT '{}')
RETURNS TABLE (place integer, outcome text, slots_freed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    done   integer[] := ARRAY(SELECT n FROM generate_subscripts(ids, 1) n);
    answer record;
    held   record;
    begun  record;
    over   record;
BEGIN
    SELECT array_agg(r.n::integer) AS places, array_agg(q.node_id) AS nodes, array_agg(q.claimed_at) AS claims,
           array_agg(q.status) AS states, array_agg(q.interruptions) AS interruptions,
           array_agg(:schema.put_back_is_repeated(q.id, r.kind, q.deferrals, q.interruptions, r.code, q.error_code)) AS repeats
    INTO held
    FROM unnest(ids, fences, kinds, codes, taken_over) WITH ORDINALITY r (id, fence, kind, code, taken_over, n)
    JOIN :schema.workflow_execution_queue q ON q.id = r.id
    WHERE q.id = ANY (ids) AND q.fence = r.fence AND q.phase + 0 = 2 AND (r.kind IN (1, 2, 3, 9, 10) OR r.taken_over);
    SELECT array_agg(s.place) AS places, array_agg(o.step) AS steps, array_agg(o.status) AS states, array_agg(o.attempt) AS attempts,
           array_agg(s.attempt) AS followed_by, array_agg(o.started_at) AS starts, array_agg(coalesce(o.start_node_id, o.node_id)) AS nodes,
           array_agg(coalesce(o.start_fence, o.fence)) AS fences, array_agg(o.fence) AS last_fences
    INTO begun
    FROM (SELECT u.place, u.step, u.attempt, ids[u.place] AS id FROM unnest(step_records, steps, step_attempts) u (place, step, attempt)
          UNION ALL
          SELECT e.n::integer, e.step, e.attempt, e.id FROM unnest(ids, end_steps, end_attempts) WITH ORDINALITY e (id, step, attempt, n)) s
    JOIN :schema.workflow_node_executions o ON o.execution_id = s.id
    WHERE o.execution_id = ANY (ids) AND o.step = s.step AND o.finished_at IS NULL;
    FOR answer IN
        SELECT r.place, r.outcome, r.slots_freed
        FROM :schema.record(recorder, ids, fences, kinds, delays, started_ago, codes, errors, end_steps, end_states, end_attempts,
                            end_failures, end_exit_codes, end_began_ago, end_outputs, end_variables, end_codes, end_errors, step_records,
                            steps, step_states, step_attempts, step_failures, exit_codes, began_ago, due_ins, step_ends, outputs,
                            variables, step_codes, step_errors, step_signals, signal_records, signal_steps, signal_seqs, action_records,
                            actions) r
    LOOP
        place := answer.place;
        outcome := answer.outcome;
        slots_freed := answer.slots_freed;
        done := CASE WHEN answer.outcome = 'cancelled' THEN done ELSE array_remove(done, answer.place) END;
        RETURN NEXT;
    END LOOP;
    IF held.places IS NOT NULL THEN
        PERFORM :schema.event_rows(now_us, done, ids, fences, kinds, started_ago, codes, held.places, held.nodes, held.claims,
                                     held.states, held.interruptions, held.repeats);
    END IF;
    PERFORM :schema.event_attempts(recorder, now_us, done, ids, fences, attempt_records, attempt_steps, attempts, attempt_states,
                                   attempt_exit_codes, attempt_codes, attempt_errors, begun.places, begun.steps, begun.states,
                                   begun.attempts, begun.followed_by, begun.starts, begun.nodes, begun.fences, begun.last_fences);
    SELECT array_agg(ids[h.place]) AS ids, array_agg(fences[h.place]) AS fences INTO over
    FROM unnest(held.places, held.interruptions) h (place, interruptions)
    WHERE h.place = ANY (done) AND (h.interruptions > 0 AND kinds[h.place] IN (1, 2, 3, 4, 6, 7, 8) OR kinds[h.place] = 10)
      AND ids[h.place] NOT IN (SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids));
    IF over.ids IS NOT NULL THEN
        PERFORM :schema.close_steps(over.ids, over.fences, now_us);
    END IF;
END
$$;
