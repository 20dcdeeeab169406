-- What a lifecycle computes and writes. Counted in instructions of the server (a drain of 4,000 over 250 workspaces by one connection, 240
-- at a time): 574,000 of each before, 558,000 after, and 3 % fewer bytes of log.
--
-- 1. A step was inserted with ON CONFLICT: that looks first, takes a lock for each row and writes a record more to the log, to say that
-- the row is to stay. Where a set is nothing but ends, nobody else can be writing a step of it: who does has the execution's row
-- locked, and its end has just deleted it. So when no step of any of them is on record then, all are inserted as they are. Every
-- other set goes as before: several may write to an execution that lives.
-- 2. Entries of the lanes' indexes are never equal but for versions of one lane that stands still, and whoever looks for these wants the
-- newest first. The server packed what could not be packed, each time a page was full.
--
-- Nodes of the last version call record() by the name and with the types that they know. Where nobody tells an error or an output the
-- arrays of these may be empty now: unnest() fills up with NULL, as it always did, and a column of NULL costs a call for each row.

-- As before (0008, 0025), with 1 of the above.
CREATE OR REPLACE FUNCTION :schema.record(recorder bigint, ids uuid[], fences bigint[], kinds integer[], delays bigint[],
                               was_started boolean[], codes text[], errors text[],
                               step_records integer[], steps text[], step_states text[], step_attempts integer[],
                               step_failures integer[], exit_codes integer[], due_ins bigint[], step_ends boolean[],
                               outputs bytea[], variables bytea[], step_codes text[], step_errors text[])
RETURNS TABLE (place integer, outcome text, slots_freed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET lock_timeout = '200ms'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    done integer[] := '{}';
    held integer[];
    ended_here integer[] := '{}';
    part integer[];
    freed integer[] := '{}';
    states text[] := '{}';
    part_freed integer[];
    part_states text[];
    next_fence bigint;
BEGIN
    IF 0 = ANY (kinds) THEN
        WITH changed AS (
            UPDATE :schema.workflow_execution_queue q
            SET status = 'DISPATCHED', dispatched_at = coalesce(q.dispatched_at, now_us)
            FROM unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
            WHERE q.id = ANY (ids) AND r.kind = 0 AND q.id = r.id AND q.fence = r.fence AND q.status = 'CLAIMED'
            RETURNING r.n
        )
        SELECT coalesce(array_agg(c.n::integer), '{}') INTO done FROM changed c;
    END IF;
    IF 5 = ANY (kinds) THEN
        -- Locked, so that no handover comes between the look and the commit: a new owner must find the step on record.
        held := ARRAY(SELECT r.n::integer FROM unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
                      JOIN :schema.workflow_execution_queue q ON q.id = r.id
                      WHERE q.id = ANY (ids) AND r.kind = 5 AND q.fence = r.fence AND q.phase + 0 = 2 FOR SHARE OF q);
        done := done || held;
    END IF;
    IF kinds && '{1,2,3}' THEN
        -- A cancel that was asked for in the meantime ends it: 8 then, but only from CLAIMED.
        WITH put_back AS (
            UPDATE :schema.workflow_execution_queue q
            SET status = 'PENDING', phase = CASE WHEN r.delay > 0 THEN 1 ELSE 0 END,
                due_at = CASE WHEN r.delay > 0 THEN now_us + r.delay END, node_id = 0, claimed_at = NULL,
                attempts = q.attempts + CASE r.kind WHEN 1 THEN 1 ELSE 0 END,
                deferrals = q.deferrals + CASE r.kind WHEN 2 THEN 1 ELSE 0 END,
                error_code = coalesce(r.code, q.error_code), error = coalesce(r.error, q.error)
            FROM unnest(ids, fences, kinds, delays, codes, errors) WITH ORDINALITY r (id, fence, kind, delay, code, error, n),
                 :schema.workflow_execution_queue o
            WHERE q.id = ANY (ids) AND o.id = ANY (ids) AND r.kind IN (1, 2, 3) AND o.id = r.id AND q.id = r.id AND q.fence = r.fence
              AND q.status = 'CLAIMED'
              AND q.cancel_at IS NULL
            RETURNING r.n, r.id, r.fence, r.kind, r.code, r.error, q.phase, q.lane_id, q.workspace_id, q.rank,
                      r.kind = 3 AND r.code = o.error_code AS told
        ), wake_up AS (
            INSERT INTO :schema.lane_wakeups (lane_id, runnable, waiting, least_rank)
            SELECT b.lane_id, count(*) FILTER (WHERE b.phase = 0), count(*) FILTER (WHERE b.phase = 1),
                   min(b.rank) FILTER (WHERE b.phase = 0)
            FROM put_back b GROUP BY b.lane_id
        ), event AS (
            -- An engine that is away for hours sends a probe every few seconds: the first release tells the story.
            INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
            SELECT b.id, now_us, (ARRAY['retry', 'defer', 'release'])[b.kind], recorder, b.fence, b.code, b.error
            FROM put_back b WHERE b.told IS NOT TRUE ORDER BY b.n
        )
        SELECT array_agg(b.n::integer), array_agg(b.workspace_id), array_agg('PENDING'::text) INTO part, part_freed, part_states
        FROM put_back b;
        IF part IS NOT NULL THEN
            done := done || part;
            freed := freed || part_freed;
            states := states || part_states;
        END IF;
    END IF;
    IF kinds && '{9}' THEN
        next_fence := nextval(':schema.fences');
        WITH given_back AS (
            UPDATE :schema.workflow_execution_queue q
            SET status = 'CLAIMED', node_id = 0, fence = next_fence, interruptions = q.interruptions + 1
            FROM unnest(ids, fences, kinds, codes, errors) WITH ORDINALITY r (id, fence, kind, code, error, n)
            WHERE q.id = ANY (ids) AND r.kind = 9 AND q.id = r.id AND q.fence = r.fence AND q.phase + 0 = 2
            RETURNING r.n, r.id, r.fence, r.code, r.error
        ), event AS (
            INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
            SELECT b.id, now_us, 'give_back', recorder, b.fence, b.code, b.error FROM given_back b ORDER BY b.n
        )
        SELECT array_agg(b.n::integer) INTO part FROM given_back b;
        done := done || coalesce(part, '{}');
    END IF;
    IF kinds && '{1,2,3,4,6,7,8}' THEN
        WITH ended AS (
            -- A put-back row keeps its last fence, so an end that comes after it is told from a legal one by the state; and only a
            -- start can be refused.
            DELETE FROM :schema.workflow_execution_queue q
            USING unnest(ids, fences, kinds, was_started, codes, errors) WITH ORDINALITY r (id, fence, kind, was_started, code, error, n)
            WHERE q.id = ANY (ids) AND r.kind IN (1, 2, 3, 4, 6, 7, 8) AND q.id = r.id AND q.fence = r.fence AND q.phase + 0 = 2
              AND (r.kind > 4 OR q.status = 'CLAIMED') AND (r.kind > 3 OR q.cancel_at IS NOT NULL)
            RETURNING q.id, q.lane_id, q.definition_id, q.run_at, q.fence, q.node_id, q.created_at, q.claimed_at, q.dispatched_at,
                      q.workspace_id, q.attempts, q.deferrals, q.handovers, q.interruptions, q.priority, q.has_params,
                      q.idempotency_key, q.retry_of, q.error_code, q.error, r.n, r.kind, r.was_started, r.code, r.error AS reported,
                      CASE r.kind WHEN 6 THEN 'COMPLETED' WHEN 4 THEN 'FAILED' WHEN 7 THEN 'FAILED' ELSE 'CANCELLED' END AS end_state
        ), history AS (
            INSERT INTO :schema.workflow_executions
                (id, lane_id, definition_id, run_at, fence, node_id, created_at, claimed_at, dispatched_at, finished_at, workspace_id,
                 attempts, deferrals, handovers, interruptions, priority, has_params, status, idempotency_key, retry_of, error_code,
                 error)
            SELECT e.id, e.lane_id, e.definition_id, e.run_at, e.fence, e.node_id, e.created_at, e.claimed_at,
                   CASE WHEN e.was_started THEN coalesce(e.dispatched_at, now_us) ELSE e.dispatched_at END, now_us, e.workspace_id,
                   e.attempts + CASE e.kind WHEN 4 THEN 1 ELSE 0 END, e.deferrals, e.handovers, e.interruptions, e.priority,
                   e.has_params, e.end_state, e.idempotency_key, e.retry_of,
                   CASE WHEN e.kind <> 6 THEN coalesce(e.code, e.error_code) END,
                   CASE WHEN e.kind <> 6 THEN coalesce(e.reported, e.error) END
            FROM ended e
        ), event AS (
            INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
            SELECT e.id, now_us, 'refuse', recorder, e.fence, e.code, e.reported FROM ended e WHERE e.kind = 4 ORDER BY e.n
        )
        SELECT array_agg(e.n::integer), array_agg(e.workspace_id), array_agg(e.end_state) INTO part, part_freed, part_states
        FROM ended e;
        IF part IS NOT NULL THEN
            ended_here := part;
            done := done || part;
            freed := freed || part_freed;
            states := states || part_states;
        END IF;
    END IF;
    IF cardinality(step_records) > 0 AND cardinality(ended_here) = cardinality(done)
       AND NOT EXISTS (SELECT 1 FROM :schema.workflow_node_executions o WHERE o.execution_id = ANY (ids)) THEN
        INSERT INTO :schema.workflow_node_executions
            (execution_id, step, status, attempt, failures, exit_code, due_at, started_at, finished_at, node_id, fence, output,
             variables, error_code, error)
        SELECT ids[s.place], s.step, s.state, s.attempt, s.failures, CASE WHEN s.exit_code >= 0 THEN s.exit_code END,
               CASE WHEN s.due_in >= 0 THEN now_us + s.due_in END, now_us,
               CASE WHEN s.ends THEN now_us END, recorder, fences[s.place], s.output, s.variables, s.code, s.error
        FROM unnest(step_records, steps, step_states, step_attempts, step_failures, exit_codes, due_ins, step_ends, outputs, variables,
                    step_codes, step_errors)
             s (place, step, state, attempt, failures, exit_code, due_in, ends, output, variables, code, error)
        WHERE (s.place IN (SELECT unnest(done))) IS TRUE; -- so written it is looked up in a hash, not in a loop
    ELSIF cardinality(step_records) > 0 THEN
        -- A final step is never rewritten.
        INSERT INTO :schema.workflow_node_executions AS old
            (execution_id, step, status, attempt, failures, exit_code, due_at, started_at, finished_at, node_id, fence, output,
             variables, error_code, error)
        SELECT ids[s.place], s.step, s.state, s.attempt, s.failures, CASE WHEN s.exit_code >= 0 THEN s.exit_code END,
               CASE WHEN s.due_in >= 0 THEN now_us + s.due_in END, now_us,
               CASE WHEN s.ends THEN now_us END, recorder, fences[s.place], s.output, s.variables, s.code, s.error
        FROM unnest(step_records, steps, step_states, step_attempts, step_failures, exit_codes, due_ins, step_ends, outputs, variables,
                    step_codes, step_errors)
             s (place, step, state, attempt, failures, exit_code, due_in, ends, output, variables, code, error)
        WHERE (s.place IN (SELECT unnest(done))) IS TRUE -- so written it is looked up in a hash, not in a loop
        ON CONFLICT (execution_id, step) DO UPDATE
        SET status = excluded.status, attempt = excluded.attempt, failures = excluded.failures, exit_code = excluded.exit_code,
            due_at = excluded.due_at, finished_at = excluded.finished_at, node_id = excluded.node_id, fence = excluded.fence,
            output = excluded.output, variables = excluded.variables, error_code = excluded.error_code, error = excluded.error
        WHERE old.finished_at IS NULL;
    END IF;
    IF cardinality(freed) > 0 THEN
        PERFORM :schema.free_slots(freed, states);
    END IF;
    IF cardinality(done) < (SELECT count(*) FROM unnest(kinds) k WHERE k >= 0) THEN
        RETURN QUERY
        SELECT r.n::integer,
               CASE WHEN q.id IS NULL THEN 'not_found' WHEN q.fence <> r.fence THEN 'stale_fence'
                    WHEN r.kind = 0 AND q.status = 'DISPATCHED' OR r.kind IN (1, 2, 3) AND q.status = 'PENDING' THEN 'repeated'
                    ELSE 'illegal_state' END,
               NULL::integer
        FROM unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
        LEFT JOIN (SELECT * FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids)) q ON q.id = r.id
        WHERE r.kind >= 0 AND (r.n IN (SELECT unnest(done))) IS NOT TRUE;
    END IF;
    place := NULL;
    outcome := NULL;
    slots_freed := cardinality(freed);
    RETURN NEXT;
END
$$;

-- Each of these locks only out what changes the schema.
ALTER INDEX :schema.lanes_ready SET (deduplicate_items = off);
ALTER INDEX :schema.lanes_newest SET (deduplicate_items = off);
