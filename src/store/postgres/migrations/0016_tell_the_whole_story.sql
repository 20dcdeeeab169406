-- The story of an execution over more than one claim, and of the runs of a step that were not its last. What the stamps of a row
-- tell is about its present claim; of an earlier one its claim and dispatch are event rows, written when the row is about to
-- forget them. A dispatch under a claim that follows a handover is one from the start, since the stamp keeps the first.
--
-- Nodes of the last version call record() itself, which is as before: what they put back has a story as short as it was.

-- Runs of a step that were followed by another, or will be: FAILED, or INTERRUPTED with their node. Its row has the last one.
CREATE TABLE :schema.workflow_node_attempts (
    execution_id   uuid    NOT NULL,
    step           text    COLLATE "C" NOT NULL,
    attempt        integer NOT NULL,
    status         text    COLLATE "C" NOT NULL CHECK (status IN ('FAILED', 'INTERRUPTED')),
    exit_code      integer,
    started_at     bigint  NOT NULL,
    finished_at    bigint  NOT NULL,
    node_id        bigint  NOT NULL,
    fence          bigint  NOT NULL,
    error_code     text    COLLATE "C",
    error          text,
    PRIMARY KEY (execution_id, step, attempt)
);

-- What rows tell of their present claims, before they forget it. The caller has locked them. A dispatch under a claim that followed
-- a handover is told already.
CREATE FUNCTION :schema.tell_claims(ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence)
    SELECT q.id, t.at, t.event, q.node_id, q.fence
    FROM :schema.workflow_execution_queue q
    CROSS JOIN LATERAL (
        VALUES ('claim', q.claimed_at),
               ('dispatch', CASE WHEN q.status = 'DISPATCHED'
                                  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_events d
                                                  WHERE d.execution_id = q.id AND d.event = 'dispatch' AND d.fence = q.fence)
                                 THEN q.dispatched_at END)) t (event, at)
    WHERE q.id = ANY (ids) AND q.node_id <> 0 AND t.at IS NOT NULL;
END
$$;

-- As before, but what the rows tell of the claims is kept, only what count_handovers() (0013) counts makes poison, and the event tells
-- of it.
CREATE OR REPLACE FUNCTION :schema.hand_over(ids uuid[], why text, handovers_max integer, now_us bigint, OUT handed_over integer,
                                             OUT poisoned integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next_fence bigint := nextval(':schema.fences');
    lost uuid[];
    freed integer[];
BEGIN
    PERFORM :schema.tell_claims(ids);
    WITH before AS MATERIALIZED (
        SELECT c.id, c.node_id, c.running, c.counted, c.ended FROM :schema.count_handovers(ids) c
    ), taken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, handovers = q.handovers + 1, interruptions = q.interruptions + 1,
            handovers_counted = b.counted, steps_ended = b.ended
        FROM before b WHERE q.id = b.id
        RETURNING q.id, b.node_id, b.running, b.counted, b.running IS NOT NULL AND b.counted >= handovers_max AS poison
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT t.id, now_us, CASE WHEN t.poison THEN 'poison' ELSE 'hand_over' END, t.node_id, next_fence, why,
               CASE WHEN t.running IS NOT NULL THEN format('%s of %s while it ran %s', t.counted, handovers_max, t.running) END
        FROM taken t
    )
    SELECT array_agg(t.id) FILTER (WHERE t.poison), count(*) FILTER (WHERE NOT t.poison), count(*) FILTER (WHERE t.poison)
    INTO lost, handed_over, poisoned FROM taken t;
    IF lost IS NOT NULL THEN
        SELECT array_agg(m.workspace_id) INTO freed
        FROM :schema.move_to_history(lost, 'FAILED', 'poison',
                                     format('its node died %s times while it ran, and no step of it ended in between; '
                                            'it is not tried again', handovers_max),
                                     now_us) m;
        PERFORM :schema.free_slots(freed, array_fill('FAILED'::text, ARRAY[cardinality(freed)]));
    END IF;
END
$$;

-- As before, but what the rows tell of the claims is kept.
CREATE OR REPLACE FUNCTION :schema.stop_node(leaver bigint, is_graceful boolean, most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    now_us bigint := :schema.store_time();
    next_fence bigint;
    ids uuid[];
BEGIN
    PERFORM 1 FROM :schema.nodes n WHERE n.id = leaver FOR UPDATE; -- no claim of it is under way, see node_may_claim
    ids := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = leaver
                 ORDER BY q.id LIMIT most FOR NO KEY UPDATE);
    IF cardinality(ids) > 0 THEN
        PERFORM :schema.tell_claims(ids);
        next_fence := nextval(':schema.fences');
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, interruptions = q.interruptions + 1 WHERE q.id = ANY (ids);
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason)
        SELECT i, now_us, 'give_back', leaver, next_fence, 'its node stops' FROM unnest(ids) i;
    END IF;
    IF cardinality(ids) < most THEN
        UPDATE :schema.nodes n SET stopped_at = now_us, active_at = now_us, expires_at = now_us, graceful = is_graceful
        WHERE n.id = leaver AND n.stopped_at IS NULL AND n.dead_at IS NULL;
        UPDATE :schema.nodes n SET recovered_at = now_us WHERE n.id = leaver AND n.recovered_at IS NULL;
    END IF;
    RETURN cardinality(ids);
END
$$;

-- Of executions that have ended without their steps: what had not ended has been stopped with them.
CREATE FUNCTION :schema.close_steps(ids uuid[], fences bigint[], now_us bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE :schema.workflow_node_executions s
    SET status = 'CANCELLED', due_at = NULL, finished_at = now_us, start_node_id = coalesce(s.start_node_id, s.node_id),
        start_fence = coalesce(s.start_fence, s.fence), node_id = 0, fence = e.fence
    FROM unnest(ids, fences) e (id, fence)
    WHERE s.execution_id = ANY (ids) AND s.execution_id = e.id AND s.finished_at IS NULL;
END
$$;

-- As before, but steps of what was taken over from an earlier claim are closed.
CREATE OR REPLACE FUNCTION :schema.move_to_history(ids uuid[], end_state text, code text, message text, now_us bigint)
RETURNS TABLE (id uuid, lane_id bigint, workspace_id integer, phase smallint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    taken_over uuid[];
    last_fences bigint[];
BEGIN
    SELECT array_agg(q.id), array_agg(q.fence) INTO taken_over, last_fences
    FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids) AND q.interruptions > 0;
    IF taken_over IS NOT NULL THEN
        PERFORM :schema.close_steps(taken_over, last_fences, now_us);
    END IF;
    RETURN QUERY
    WITH ended AS (
        DELETE FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids) RETURNING q.*
    ), history AS (
        INSERT INTO :schema.workflow_executions
            (id, lane_id, definition_id, run_at, fence, node_id, created_at, claimed_at, dispatched_at, finished_at, workspace_id,
             attempts, deferrals, handovers, interruptions, priority, has_params, status, idempotency_key, retry_of, error_code, error)
        SELECT e.id, e.lane_id, e.definition_id, e.run_at, e.fence, e.node_id, e.created_at, e.claimed_at, e.dispatched_at, now_us,
               e.workspace_id, e.attempts, e.deferrals, e.handovers, e.interruptions, e.priority, e.has_params, end_state,
               e.idempotency_key, e.retry_of, coalesce(code, e.error_code), coalesce(message, e.error)
        FROM ended e
    )
    SELECT e.id, e.lane_id, e.workspace_id, e.phase FROM ended e;
END
$$;

-- As record() (0002), for a set whose story is more than its rows can tell: a claim that is over though its execution is not, an
-- execution that was taken over from an earlier claim, an attempt of a step that another one follows or followed. A node sends
-- every other set to record() itself, which costs what it did.
--   taken_over       of each record
--   attempt_records  the records that must take effect for the lost attempts of the next arrays to be kept
-- What the rows say is looked at before; it is right when the record takes effect, because only the holder of a fence changes it.
CREATE FUNCTION :schema.record_story(recorder bigint, ids uuid[], fences bigint[], kinds integer[], delays bigint[],
                                     was_started boolean[], codes text[], errors text[],
                                     step_records integer[], steps text[], step_states text[], step_attempts integer[],
                                     step_failures integer[], exit_codes integer[], due_ins bigint[], step_ends boolean[],
                                     outputs bytea[], variables bytea[], step_codes text[], step_errors text[],
                                     taken_over boolean[],
                                     attempt_records integer[], attempt_steps text[], attempts integer[], attempt_states text[],
                                     attempt_exit_codes integer[], attempt_codes text[], attempt_errors text[])
RETURNS TABLE (place integer, outcome text, slots_freed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    done integer[];
    answer record;
    held record;
    begun record;
    over record;
BEGIN
    SELECT array_agg(r.n::integer) AS places, array_agg(q.node_id) AS nodes, array_agg(q.claimed_at) AS claims,
           array_agg(q.dispatched_at) AS dispatches, array_agg(q.status) AS states, array_agg(q.interruptions) AS interruptions,
           array_agg(q.error_code) AS codes
    INTO held
    FROM unnest(ids, fences, kinds, taken_over) WITH ORDINALITY r (id, fence, kind, taken_over, n)
    JOIN :schema.workflow_execution_queue q ON q.id = r.id
    WHERE q.id = ANY (ids) AND q.fence = r.fence AND q.phase + 0 = 2 AND (r.kind IN (1, 2, 3, 9) OR r.taken_over);
    SELECT array_agg(s.place) AS places, array_agg(o.step) AS steps, array_agg(o.status) AS states, array_agg(o.attempt) AS attempts,
           array_agg(s.attempt) AS followed_by, array_agg(o.started_at) AS starts, array_agg(coalesce(o.start_node_id, o.node_id)) AS nodes,
           array_agg(coalesce(o.start_fence, o.fence)) AS fences, array_agg(o.fence) AS last_fences
    INTO begun
    FROM unnest(step_records, steps, step_attempts) s (place, step, attempt)
    JOIN :schema.workflow_node_executions o ON o.execution_id = ids[s.place] AND o.step = s.step
    WHERE o.execution_id = ANY (ids) AND o.finished_at IS NULL;

    done := ARRAY(SELECT n FROM generate_subscripts(ids, 1) n);
    FOR answer IN
        SELECT r.place, r.outcome, r.slots_freed
        FROM :schema.record(recorder, ids, fences, kinds, delays, was_started, codes, errors, step_records, steps, step_states,
                            step_attempts, step_failures, exit_codes, due_ins, step_ends, outputs, variables, step_codes,
                            step_errors) r
    LOOP
        place := answer.place;
        outcome := answer.outcome;
        slots_freed := answer.slots_freed;
        done := array_remove(done, answer.place);
        RETURN NEXT;
    END LOOP;

    -- Claims that are over, when their rows have forgotten them, and dispatches that the stamps do not tell. A release that is no news
    -- has no event (record()), and so neither has its claim.
    WITH story AS (
        SELECT ids[h.place] AS id, h.place, kinds[h.place] AS kind, h.node_id, fences[h.place] AS fence, h.claimed_at, h.dispatched_at,
               h.interruptions, was_started[h.place] AND h.status = 'CLAIMED' AS starts,
               (kinds[h.place] = 3 AND codes[h.place] = h.error_code) IS NOT TRUE AS is_news
        FROM unnest(held.places, held.nodes, held.claims, held.dispatches, held.states, held.interruptions, held.codes)
             h (place, node_id, claimed_at, dispatched_at, status, interruptions, error_code)
        WHERE h.place = ANY (done) AND h.node_id <> 0
    ), living AS (
        SELECT q.id, q.dispatched_at FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids)
    )
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence)
    SELECT t.id, t.at, t.event, t.node_id, t.fence
    FROM (SELECT s.id, s.claimed_at AS at, 'claim' AS event, s.node_id, s.fence, 1 AS stage
          FROM story s JOIN living l ON l.id = s.id WHERE s.kind IN (1, 2, 3, 9) AND s.is_news
          UNION ALL
          SELECT s.id, l.dispatched_at, 'dispatch', s.node_id, s.fence, 2
          FROM story s JOIN living l ON l.id = s.id WHERE s.kind = 9 AND s.interruptions = 0
          UNION ALL
          SELECT s.id, now_us, 'dispatch', s.node_id, s.fence, 2
          FROM story s WHERE s.interruptions > 0 AND (s.kind = 0 OR s.kind IN (6, 7, 8) AND s.starts)) t
    WHERE t.at IS NOT NULL ORDER BY t.id, t.stage;

    IF cardinality(attempt_records) > 0 THEN
        INSERT INTO :schema.workflow_node_attempts
            (execution_id, step, attempt, status, exit_code, started_at, finished_at, node_id, fence, error_code, error)
        SELECT ids[a.place], a.step, a.attempt, a.status, CASE WHEN a.exit_code >= 0 THEN a.exit_code END, coalesce(b.started_at, now_us),
               now_us, recorder, fences[a.place], a.code, a.error
        FROM unnest(attempt_records, attempt_steps, attempts, attempt_states, attempt_exit_codes, attempt_codes, attempt_errors)
             a (place, step, attempt, status, exit_code, code, error)
        LEFT JOIN unnest(begun.places, begun.steps, begun.attempts, begun.starts) b (place, step, attempt, started_at)
          ON ids[b.place] = ids[a.place] AND b.step = a.step AND b.attempt = a.attempt
        WHERE a.place = ANY (done)
        ON CONFLICT DO NOTHING;
    END IF;
    IF begun.places IS NOT NULL THEN
        -- What ran and was followed by another attempt ended with the hold of its node.
        INSERT INTO :schema.workflow_node_attempts
            (execution_id, step, attempt, status, started_at, finished_at, node_id, fence)
        SELECT ids[b.place], b.step, b.attempt, 'INTERRUPTED', b.started_at,
               coalesce((SELECT min(e.at) FROM :schema.workflow_execution_events e
                         WHERE e.execution_id = ids[b.place] AND e.event IN ('hand_over', 'give_back') AND e.at >= b.started_at
                           AND e.fence >= b.fence), now_us),
               b.node_id, b.fence
        FROM unnest(begun.places, begun.steps, begun.states, begun.attempts, begun.followed_by, begun.starts, begun.nodes, begun.fences)
             b (place, step, status, attempt, followed_by, started_at, node_id, fence)
        WHERE b.place = ANY (done) AND b.status = 'RUNNING' AND b.attempt < b.followed_by
        ON CONFLICT DO NOTHING;
        -- A later attempt begins anew; who goes on with one that another node has begun is not who started it.
        UPDATE :schema.workflow_node_executions o
        SET started_at = CASE WHEN o.attempt > b.attempt THEN now_us ELSE o.started_at END,
            start_node_id = CASE WHEN o.attempt > b.attempt THEN NULL ELSE b.node_id END,
            start_fence = CASE WHEN o.attempt > b.attempt THEN NULL ELSE b.fence END
        FROM unnest(begun.places, begun.steps, begun.attempts, begun.nodes, begun.fences, begun.last_fences)
             b (place, step, attempt, node_id, fence, last_fence)
        WHERE o.execution_id = ANY (ids) AND o.execution_id = ids[b.place] AND o.step = b.step AND b.place = ANY (done)
          AND (o.attempt > b.attempt OR o.fence <> b.last_fence);
    END IF;

    SELECT array_agg(ids[h.place]) AS ids, array_agg(fences[h.place]) AS fences INTO over
    FROM unnest(held.places, held.interruptions) h (place, interruptions)
    WHERE h.place = ANY (done) AND h.interruptions > 0 AND kinds[h.place] IN (1, 2, 3, 4, 6, 7, 8)
      AND ids[h.place] NOT IN (SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids));
    IF over.ids IS NOT NULL THEN
        PERFORM :schema.close_steps(over.ids, over.fences, now_us);
    END IF;
END
$$;

-- As before, with the attempts.
CREATE OR REPLACE FUNCTION :schema.purge_items(ids uuid[]) RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    gone uuid[];
    owners integer[];
    keys text[];
BEGIN
    WITH removed AS (
        DELETE FROM :schema.workflow_executions h WHERE h.id = ANY (ids) RETURNING h.id, h.workspace_id, h.idempotency_key
    )
    SELECT array_agg(r.id), array_agg(r.workspace_id), array_agg(r.idempotency_key) INTO gone, owners, keys FROM removed r;
    DELETE FROM :schema.execution_params p WHERE p.id = ANY (gone);
    DELETE FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY (gone);
    DELETE FROM :schema.workflow_node_attempts a WHERE a.execution_id = ANY (gone);
    DELETE FROM :schema.workflow_execution_events e WHERE e.execution_id = ANY (gone);
    DELETE FROM :schema.idempotency_keys k USING unnest(gone, owners, keys) r (id, workspace_id, key)
    WHERE k.workspace_id = r.workspace_id AND k.key = r.key AND k.execution_id = r.id;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (gone) THEN 'changed' ELSE 'refused' END, coalesce(q.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id;
END
$$;

-- Who started the attempt, when it is another than who wrote the row last. Late in this file, because it holds up everybody until
-- the commit.
ALTER TABLE :schema.workflow_node_executions ADD COLUMN start_node_id bigint, ADD COLUMN start_fence bigint;

-- fence and stage order what has the same time stamp: claims follow each other by their fences, and within one come claim, dispatch,
-- steps, what an event row tells, the end. What an operator does has no fence.
CREATE OR REPLACE VIEW :schema.execution_events AS
SELECT e.execution_id AS execution_id, :schema.time_of(e.at) AS at, e.event AS event,
       (SELECT n.name FROM :schema.nodes n WHERE n.id = e.node_id) AS node,
       nullif(e.fence, 0) AS fence, e.actor AS actor, e.reason AS reason, e.detail AS detail, e.attempt AS attempt
FROM (
    SELECT id AS execution_id, created_at AS at, 'enqueue' AS event, 0::bigint AS node_id, 0::bigint AS fence, NULL::text AS actor,
           CASE WHEN retry_of IS NOT NULL THEN 'retry_of' END AS reason, retry_of::text AS detail, NULL::integer AS attempt, 0 AS stage,
           0::bigint AS seq FROM :schema.workflow_execution_queue
    UNION ALL
    SELECT id, created_at, 'enqueue', 0, 0, NULL, CASE WHEN retry_of IS NOT NULL THEN 'retry_of' END, retry_of::text, NULL, 0, 0
    FROM :schema.workflow_executions
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, NULL, 1, 0 FROM :schema.workflow_execution_queue
    WHERE claimed_at IS NOT NULL AND node_id <> 0
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, NULL, 1, 0 FROM :schema.workflow_executions
    WHERE claimed_at IS NOT NULL AND node_id <> 0
    UNION ALL
    SELECT q.id, q.dispatched_at, 'dispatch', q.node_id, q.fence, NULL, NULL, NULL, NULL, 2, 0 FROM :schema.workflow_execution_queue q
    WHERE q.dispatched_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_events t WHERE t.execution_id = q.id AND t.event = 'dispatch')
    UNION ALL
    SELECT h.id, h.dispatched_at, 'dispatch', h.node_id, h.fence, NULL, NULL, NULL, NULL, 2, 0 FROM :schema.workflow_executions h
    WHERE h.dispatched_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_events t WHERE t.execution_id = h.id AND t.event = 'dispatch')
    UNION ALL
    SELECT execution_id, started_at, 'step_start', node_id, fence, NULL, step, NULL, attempt, 3, 0 FROM :schema.workflow_node_attempts
    UNION ALL
    SELECT execution_id, finished_at, 'step_end', node_id, fence, NULL, step,
           status || coalesce(': ' || left(coalesce(error, error_code), 200), ''), attempt, 3, 1 FROM :schema.workflow_node_attempts
    UNION ALL
    SELECT s.execution_id, s.started_at, 'step_start', coalesce(s.start_node_id, s.node_id), coalesce(s.start_fence, s.fence), NULL,
           s.step, NULL, s.attempt, 3, 0 FROM :schema.workflow_node_executions s
    WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_node_attempts a
                      WHERE a.execution_id = s.execution_id AND a.step = s.step AND a.attempt = s.attempt)
    UNION ALL
    SELECT s.execution_id, s.finished_at, 'step_end', s.node_id, s.fence, NULL, s.step,
           s.status || coalesce(': ' || left(coalesce(s.error, s.error_code), 200), ''), s.attempt, 3, 1
    FROM :schema.workflow_node_executions s
    WHERE s.finished_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.workflow_node_attempts a
                      WHERE a.execution_id = s.execution_id AND a.step = s.step AND a.attempt = s.attempt)
    UNION ALL
    SELECT execution_id, at, event, node_id, fence, actor, reason, detail, NULL,
           CASE event WHEN 'claim' THEN 1 WHEN 'dispatch' THEN 2 ELSE 4 END, seq FROM :schema.workflow_execution_events
    UNION ALL
    SELECT id, finished_at,
           CASE status WHEN 'COMPLETED' THEN 'complete' WHEN 'FAILED' THEN 'fail' ELSE 'cancelled' END,
           node_id, fence, NULL, error_code, error, NULL, 5, 0 FROM :schema.workflow_executions
) e
ORDER BY e.execution_id, e.at, e.fence, e.stage, e.attempt NULLS FIRST, e.seq;
