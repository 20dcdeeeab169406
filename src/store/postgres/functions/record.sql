-- Records a set of reports of engines.
--   recorder     the node; 0: a worker outside of any node
--   ids, fences  sorted by id, so that rows are locked in one order everywhere. At most one record of an item ends its claim
--   kinds        0 dispatched, 1 retry, 2 deferred, 3 put back, 4 refused, 5 step, 6 completed, 7 failed, 8 cancelled, 9 given back,
--                10 parked (enum record_kind)
--   delays       microseconds, of 1, 2 and 10; of 10 below 0 = it waits for a signal alone
--   codes        of 10: what the item waits for
--   started_ago  of 0, and of an end whose start is not on record: microseconds since the engine reported it; -1 = it did not. Of 10: the
--                number of the last signal that the engine has got, and park_starts has what this has for an end
--   end_began_ago, began_ago  microseconds since the attempt of the step began; -1 = it began with the execution
--   end_steps ... end_errors          the finished step that belongs to each end, at the place of its record; NULL = none, and then
--                                     the arrays may be empty
--   step_records, steps ... step_errors  all other steps; step_records names the record that must take effect for the step to be
--                                     written, ascending. An exit_code or due_in below 0 is none. step_signals: what they wait for
--   signal_records, signal_steps, signal_seqs  the signals that the steps of these records consume, where they take effect
--   ended_ago    of the step arrays: microseconds since the step ended; empty = all end with the record
--   sleeps       places in the step arrays of sleeps that end with their execution (slept_steps())
--   action_records, actions  the actions of states that these records end (record_actions())
-- Where no element has a value, an array of texts or bytes may be empty.
--
-- Each record is conditional on its fence and on the state of its item. The kinds are done in the order of an item's life:
-- 1. Dispatched: CLAIMED becomes DISPATCHED.
-- 2. Steps: their items are locked FOR SHARE, so that no handover comes before the commit: the next holder must find the step on record.
-- 3. Put-backs and parks: CLAIMED becomes PENDING, DISPATCHED becomes WAITING, with its start at once if need be. With a
--    requested cancel they are left to step 4. A park may write its step, too (park_items()).
-- 4. Ends: the row moves to the history in the statement that writes the news. A step of an end is stored in the history row, unless an
--    earlier set has made a row for it. So is the end of a sleep that was its only wait. A set of steps 1 to 3 alone comes
--    here only if one of its put-backs or parks has not taken effect.
-- 5. Steps and actions are written, and only those with a record that took effect.
-- 6. Give-backs: the item gets a new fence and no node. What the set has of its steps is on record by then, so a step that has ended makes
--    no suspect of its item.
-- 7. Freed slots wake the scheduler, unless this node schedules: it passes its own records on itself.
-- 8. Each record that did not take effect gets its outcome from its row now.
--
-- Returns the records that did not simply take effect, by their place in the arrays. A last row without a place counts the freed slots. The
-- outcomes are 'repeated' (on record already), 'stale_fence', 'not_found' and 'illegal_state'. 'poisoned' took effect and ended the item as
-- poison. With 'cancelled' a requested cancel ended the item in the place of a put-back or a park. The ids of the set bound all that a
-- statement reads of the queue. Each join is one of two small sets, and hashed. So the cached plan stays good for any size that the queue
-- had when it was made.
-- Locks: the rows of the set, ascending, for at most lock_timeout, which is below deadlock_timeout. Callers: record_events(), record_set
-- (queries/record.sql).
CREATE OR REPLACE FUNCTION :schema.record(recorder bigint, ids uuid[], fences bigint[], kinds integer[], delays bigint[],
                                          started_ago bigint[], codes text[], errors text[], end_steps text[], end_states text[],
                                          end_attempts integer[], end_failures integer[], end_exit_codes integer[],
                                          end_began_ago bigint[], end_outputs bytea[], end_variables bytea[], end_codes text[],
                                          end_errors text[], step_records integer[], steps text[], step_states text[],
                                          step_attempts integer[], step_failures integer[], exit_codes integer[], began_ago bigint[],
                                          due_ins bigint[], step_ends boolean[], outputs bytea[], variables bytea[], step_codes text[],
                                          step_errors text[], step_signals text[] DEFAULT '{}', signal_records integer[] DEFAULT '{}',
                                          signal_steps text[] DEFAULT '{}', signal_seqs bigint[] DEFAULT '{}',
                                          action_records integer[] DEFAULT '{}', actions text[] DEFAULT '{}',
                                          park_starts bigint[] DEFAULT '{}', ended_ago bigint[] DEFAULT '{}',
                                          sleeps integer[] DEFAULT NULL)
RETURNS TABLE (place integer, outcome text, slots_freed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '200ms'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    done   integer[] := '{}';
    freed  integer := 0; given_back integer[];
    stored integer[]; begun integer[]; part integer[]; signalled uuid[];
    ended integer[]; end_claims bigint[]; -- places, and the times of their claims
    due integer; -- records that may end their items
BEGIN
    IF 0 = ANY (kinds) THEN
        done := done || :schema.record_starts(now_us, ids, fences, kinds, started_ago);
        IF cardinality(done) > 0 AND :schema.stream_is_read(now_us) THEN
            PERFORM :schema.write_stream(now_us, '{dispatch}', ARRAY(SELECT ids[d] FROM unnest(done) d ORDER BY d));
        END IF;
    END IF;
    IF 5 = ANY (kinds) THEN
        done := done || ARRAY(SELECT r.n::integer FROM unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
                              JOIN :schema.workflow_execution_queue q ON q.id = r.id
                              WHERE q.id = ANY (ids) AND r.kind = 5 AND q.fence = r.fence AND q.phase + 0 = 2 FOR SHARE OF q);
    END IF;
    IF kinds && '{1,2,3,10}' THEN
        part := CASE WHEN kinds && '{1,2,3}'
                     THEN :schema.record_put_backs(recorder, now_us, ids, fences, kinds, delays, codes, errors) END;
        IF 10 = ANY (kinds) THEN
            SELECT part || p.places, p.started, p.signalled, p.written, p.ago INTO part, begun, signalled, step_records, started_ago
            FROM :schema.park_items(recorder, now_us, ids, fences, kinds, delays, codes, started_ago, park_starts, step_records, steps,
                                    step_states, step_attempts, step_failures, exit_codes, began_ago, due_ins, outputs, variables,
                                    step_codes, step_errors, step_signals) p;
        END IF;
        freed := freed + coalesce(cardinality(part), 0);
        done := done || part;
    END IF;
    due := (SELECT count(*) FROM unnest(kinds) k WHERE k NOT IN (0, 5, 9)) - coalesce(cardinality(part), 0);
    IF due > 0 THEN
        SELECT e.places, e.claims, begun || e.started, e.stored, e.written INTO ended, end_claims, begun, stored, step_records
        FROM :schema.end_items(due, done, recorder, now_us, ids, fences, kinds, started_ago, codes, errors, end_steps, end_states,
                               end_attempts, end_failures, end_exit_codes, end_began_ago, end_outputs, end_variables, end_codes, end_errors,
                               sleeps, step_records, ended_ago) e;
        freed := freed + coalesce(cardinality(ended), 0);
        done := done || ended;
        IF ended IS NOT NULL AND kinds && '{1,2,3,10}' THEN
            RETURN QUERY SELECT p.n, 'cancelled', NULL::integer FROM unnest(ended) p (n) WHERE kinds[p.n] IN (1, 2, 3, 10);
        END IF;
    END IF;
    IF cardinality(array_remove(step_records, NULL)) > 0 OR stored IS NOT NULL THEN
        PERFORM :schema.record_steps(recorder, now_us, done, ids, fences, step_records, steps, step_states, step_attempts, step_failures,
                                     exit_codes, began_ago, due_ins, step_ends, outputs, variables, step_codes, step_errors, step_signals,
                                     end_steps, end_states, end_attempts, end_failures, end_exit_codes, end_began_ago, end_outputs,
                                     end_variables, end_codes, end_errors, stored, ended_ago, ended, end_claims);
    END IF;
    PERFORM :schema.record_actions(recorder, now_us, done, ids, fences, action_records, actions) WHERE cardinality(action_records) > 0;
    IF 9 = ANY (kinds) THEN -- behind the steps and actions of the claim, which end with it
        given_back := :schema.record_give_backs(recorder, now_us, ids, fences, kinds, codes, errors);
        done := done || given_back;
        IF codes && '{keeper_lost,keeper_lost_alone}' THEN
            RETURN QUERY
            SELECT r.n::integer, 'poisoned', NULL::integer
            FROM unnest(ids, kinds) WITH ORDINALITY r (id, kind, n) JOIN :schema.workflow_executions e ON e.id = r.id
            WHERE e.id = ANY (ids) AND r.kind = 9 AND r.n = ANY (given_back) AND e.error_code = 'poison';
        END IF;
    END IF;
    PERFORM :schema.stream_records(now_us, done, begun, ids, kinds, codes)
    WHERE cardinality(done) > 0 AND :schema.stream_is_read(now_us);
    PERFORM :schema.record_signals(now_us, done, ids, signalled, signal_records, signal_steps, signal_seqs)
    WHERE cardinality(signal_records) > 0 OR signalled IS NOT NULL;
    IF (freed > 0 OR given_back IS NOT NULL) AND (SELECT s.node_id FROM :schema.scheduler s WHERE s.partition = 0) <> recorder THEN
        PERFORM :schema.notify_news(); -- the node that schedules passes its own records on itself
    END IF;
    IF cardinality(done) < cardinality(ids) THEN
        RETURN QUERY SELECT o.place, o.outcome, NULL::integer FROM :schema.record_outcomes(done, ids, fences, kinds) o;
    END IF;
    place := NULL; outcome := NULL; slots_freed := freed;
    RETURN NEXT;
END
$$;
