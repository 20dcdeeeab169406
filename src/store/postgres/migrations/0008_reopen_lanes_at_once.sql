-- A freed slot opens its lane in the transaction that frees it, instead of by a wake-up that a later claim folds: of a lifecycle in a
-- full workspace that is an insert, a delete and a look less.
--
-- Nodes of the last version work with these functions and these with their data: wake-ups are folded as before.

-- Gives slots back and counts ends, once per workspace and set. A workspace that was full has room now, so its lanes are opened, at
-- the place in the order where their group stands.
-- Lanes are locked after workspaces here, against the order that everybody else keeps. That is safe because nobody is waited for:
-- a lane that somebody else holds gets a wake-up instead, and after this the transaction takes no lock that it would wait for.
-- Lanes are looked at after the workspaces are ours: one that was closed before that is seen, and one that is ready then stays so,
-- because who closes a lane for want of room has its workspace. What a lane counts is looked at when it is locked.
-- `states`: of each item that gave its slot back: what it is now, or ended as.
CREATE OR REPLACE FUNCTION :schema.free_slots(freed integer[], states text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_nestloop = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    reopened bigint[];
    closed bigint[];
    locked bigint[];
BEGIN
    WITH changed AS (
        UPDATE :schema.workspaces w
        SET slots_used = w.slots_used - c.slots, completed = w.completed + c.completed, failed = w.failed + c.failed,
            cancelled = w.cancelled + c.cancelled
        FROM (SELECT u.id, count(*)::integer AS slots, count(*) FILTER (WHERE u.state = 'COMPLETED') AS completed,
                     count(*) FILTER (WHERE u.state = 'FAILED') AS failed, count(*) FILTER (WHERE u.state = 'CANCELLED') AS cancelled
              FROM unnest(freed, states) u (id, state) GROUP BY u.id ORDER BY u.id) c
        WHERE w.id = c.id
        RETURNING w.id, w.slots_used + c.slots >= w.slots_max AND w.slots_used < w.slots_max AND NOT w.paused AS reopens
    )
    SELECT array_agg(:schema.lane_id(g.id, c.id)) INTO reopened FROM changed c CROSS JOIN :schema.executor_groups g WHERE c.reopens;
    closed := ARRAY(SELECT l.id FROM :schema.lanes l WHERE l.id = ANY (reopened) AND NOT l.ready);
    IF cardinality(closed) = 0 THEN
        RETURN;
    END IF;
    locked := ARRAY(SELECT l.id FROM :schema.lanes l WHERE l.id = ANY (closed) FOR NO KEY UPDATE SKIP LOCKED);
    UPDATE :schema.lanes l SET ready = true, pass = greatest(l.pass, g.pass)
    FROM :schema.executor_groups g
    WHERE l.id = ANY (locked) AND NOT l.ready AND l.runnable > 0 AND g.id = (l.id >> 32)::integer;
    IF cardinality(locked) < cardinality(closed) THEN
        INSERT INTO :schema.lane_wakeups (lane_id)
        SELECT u.lane_id FROM unnest(closed) u (lane_id) WHERE (u.lane_id IN (SELECT unnest(locked))) IS NOT TRUE;
    END IF;
END
$$;

-- Slots that the last claim was given. An UPDATE tells what a row has become and not what it was, so what was given is written down.
ALTER TABLE :schema.workspaces ADD COLUMN granted integer NOT NULL DEFAULT 0;

-- The ready lanes that can fill the claim, in stride order, locked; a lane that another claim holds is passed over. What is told of
-- a lane is what its locked version says, so it stands at its place, unchanged, until this transaction ends. Of the workspace that is
-- not so: it is not locked, and how many slots are free is a guess.
--   most < 64    as many lanes as items: every lane gets its turn in order
--   else         as many as fill the claim with 8 turns each: a lane's rows lie together, so that a large claim touches a
--                fraction of the pages. The lanes left out stand first in the next claim.
CREATE FUNCTION :schema.choose_lanes(claim_group text, from_pass bigint, most integer, OUT lane_ids bigint[], OUT lane_places tid[],
                                     OUT workspace_ids integer[], OUT names text[], OUT passes bigint[], OUT strides integer[],
                                     OUT runnables bigint[], OUT head_ranks bigint[], OUT frees integer[], OUT first_pass bigint,
                                     OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET enable_sort = off AS $$
DECLARE
    lane record;
    spread constant integer := CASE WHEN most < 64 THEN 1 ELSE 8 END;
    turns integer := 0;
    looked integer := 0;
    looked_most constant integer := 4 * most + 100;
BEGIN
    lane_ids := '{}';
    left_over := true;
    FOR lane IN
        SELECT l.id, l.ctid AS place, l.workspace_id, w.name, l.pass, 720720 / w.weight AS stride, l.runnable, l.head_rank,
               CASE WHEN w.paused THEN 0 ELSE greatest(w.slots_max - w.slots_used, 0) END AS free
        FROM :schema.lanes l JOIN :schema.workspaces w ON w.id = l.workspace_id
        WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass
        ORDER BY l.pass, l.id LIMIT looked_most FOR NO KEY UPDATE OF l SKIP LOCKED
    LOOP
        first_pass := coalesce(first_pass, lane.pass);
        lane_ids := lane_ids || lane.id;
        lane_places := lane_places || lane.place;
        workspace_ids := workspace_ids || lane.workspace_id;
        names := names || lane.name;
        passes := passes || lane.pass;
        strides := strides || lane.stride;
        runnables := runnables || lane.runnable;
        head_ranks := head_ranks || lane.head_rank;
        frees := frees || lane.free;
        turns := turns + least(lane.runnable, spread, lane.free)::integer;
        looked := looked + 1;
        IF turns >= most OR looked = looked_most THEN
            RETURN;
        END IF;
    END LOOP;
    left_over := looked < (SELECT count(*) FROM :schema.lanes l
                           WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass);
END
$$;

-- As before, but a workspace is locked by the update that takes its slots. Turns are dealt by what was seen free; what is given is
-- what is free when the workspace is ours.
--
-- A large claim leaves the lane of a workspace that it fills ready. With short executions a slot is free again before the lane's
-- next turn, and the lane is written once per execution instead of twice. The claim that finds it still full closes it, when it
-- has the workspace: who frees a slot and sees the lane ready leaves it alone.
--   closes  whether this claim closes the lanes of the workspaces that it fills
CREATE OR REPLACE FUNCTION :schema.claim(claimer bigint, claim_group text, most integer, since xid8, from_pass bigint)
RETURNS TABLE (id uuid, fence bigint, workspace text, workflow text, version integer, definition_id bigint, params bytea,
               attempts integer, interruptions integer, handed_over boolean, cancel_requested boolean, created_at bigint,
               run_at bigint, dispatched_at bigint, claimed_at bigint, priority integer, lanes integer, more boolean,
               first_pass bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    closes constant boolean := most < 64;
    work record;
    own_group record;
    passed_over boolean := false;
    ready record;
    dealt record;
    full_lanes bigint[];
    busy integer;
    next_fence bigint;
    taken integer := 0;
    part integer;
BEGIN
    SELECT * INTO work FROM :schema.look(claimer, claim_group, since, from_pass);
    SELECT g.id, g.pass INTO own_group FROM :schema.executor_groups g WHERE g.name = claim_group;
    -- Reads only when there is nothing to do.
    IF work.runs AND (work.handed_over OR NOT work.paused AND (work.ready OR work.due_at <= now_us))
       AND :schema.node_may_claim(claimer) THEN
        -- Running work is taken over also while the queue is paused: it is no new claim.
        IF work.handed_over THEN
            next_fence := nextval(':schema.fences');
            RETURN QUERY
            WITH taken AS (
                UPDATE :schema.workflow_execution_queue q
                SET node_id = claimer, fence = next_fence, claimed_at = now_us, cancel_sent = true
                WHERE q.id = ANY (ARRAY(
                    SELECT h.id FROM :schema.workflow_execution_queue h
                    WHERE h.phase = 2 AND h.node_id = 0
                      AND h.lane_id >= own_group.id::bigint << 32 AND h.lane_id < (own_group.id::bigint + 1) << 32
                    ORDER BY h.lane_id LIMIT most FOR NO KEY UPDATE SKIP LOCKED))
                RETURNING q.*
            )
            SELECT t.id, t.fence, w.name, d.name, d.version, t.definition_id, p.params, t.attempts, t.interruptions, true,
                   t.cancel_at IS NOT NULL, t.created_at, t.run_at, t.dispatched_at,
                   now_us, t.priority::integer, NULL::integer, NULL::boolean, NULL::bigint
            FROM taken t JOIN :schema.workspaces w ON w.id = t.workspace_id
            LEFT JOIN :schema.workflow_definitions d ON d.id = t.definition_id
            LEFT JOIN :schema.execution_params p ON t.has_params AND p.id = t.id;
            GET DIAGNOSTICS taken = ROW_COUNT;
        END IF;
        IF taken < most AND NOT work.paused THEN
            SELECT * INTO ready FROM :schema.choose_lanes(claim_group, from_pass, most - taken);
            first_pass := CASE WHEN ready.first_pass IS NOT NULL THEN least(ready.first_pass, own_group.pass) END;
            passed_over := ready.left_over;
            lanes := cardinality(ready.lane_ids);
        END IF;
        IF lanes > 0 THEN
            next_fence := coalesce(next_fence, nextval(':schema.fences'));
            -- Workspaces ascending, as everybody locks them.
            WITH offer AS MATERIALIZED (
                SELECT u.*, least(u.free, u.runnable, most - taken)::integer AS room
                FROM unnest(ready.lane_ids, ready.lane_places, ready.workspace_ids, ready.names, ready.passes, ready.strides,
                            ready.runnables, ready.head_ranks, ready.frees)
                     u (lane_id, lane_place, workspace_id, name, pass, stride, runnable, head_rank, free)
                WHERE u.free > 0 AND u.runnable > 0
            ), enough AS MATERIALIZED (
                -- So many turns of each lane make up the claim: many lanes with many slots are not multiplied out.
                SELECT CASE WHEN count(*) >= most - taken THEN 1
                            WHEN sum(least(o.room, 8)) >= most - taken THEN 8
                            WHEN sum(least(o.room, 64)) >= most - taken THEN 64 ELSE most END AS turns
                FROM offer o
            ), depth AS MATERIALIZED (
                SELECT max(o.pass + least(o.room, (SELECT e.turns FROM enough e)) * o.stride) AS last_pass FROM offer o
            ), granted AS (
                UPDATE :schema.workspaces w
                SET slots_used = w.slots_used + least(s.turns, w.slots_max - w.slots_used),
                    granted = least(s.turns, w.slots_max - w.slots_used)
                FROM (SELECT t.lane_id, t.lane_place, t.workspace_id, t.name, t.pass, t.stride, t.head_rank, count(*)::integer AS turns
                      FROM (SELECT o.*
                            FROM offer o, depth d, generate_series(0, least(o.room - 1, (d.last_pass - o.pass) / o.stride)) k
                            ORDER BY o.pass + k * o.stride, o.lane_id LIMIT most - taken) t
                      GROUP BY t.workspace_id, t.lane_id, t.lane_place, t.name, t.pass, t.stride, t.head_rank
                      ORDER BY t.workspace_id) s
                WHERE w.id = s.workspace_id AND NOT w.paused AND w.slots_used < w.slots_max
                RETURNING s.lane_id, s.lane_place, s.name, s.pass, s.stride, s.head_rank, w.granted, w.slots_used < w.slots_max AS has_room
            )
            SELECT array_agg(a.lane_id) AS lane_ids, array_agg(a.lane_place) AS lane_places, array_agg(a.name) AS names,
                   array_agg(a.pass) AS passes, array_agg(a.stride) AS strides, array_agg(a.head_rank) AS head_ranks,
                   array_agg(a.granted) AS turns, array_agg(a.has_room) AS has_rooms, sum(a.granted) AS slots
            INTO dealt FROM granted a;
            RETURN QUERY
            WITH picked AS MATERIALIZED (
                -- Numbered after the LIMIT: a window over all of them would read one item ahead.
                SELECT h.place, d.lane_id, d.lane_place, d.name, d.stride, d.turns, d.has_room, d.pass + h.k * d.stride AS turn
                FROM unnest(dealt.lane_ids, dealt.lane_places, dealt.names, dealt.passes, dealt.strides, dealt.head_ranks, dealt.turns,
                            dealt.has_rooms) d (lane_id, lane_place, name, pass, stride, head_rank, turns, has_room)
                CROSS JOIN LATERAL (
                    SELECT s.place, row_number() OVER (ORDER BY s.rank, s.id) - 1 AS k
                    FROM (SELECT q.ctid AS place, q.rank, q.id FROM :schema.workflow_execution_queue q
                          WHERE q.lane_id = d.lane_id AND q.phase = 0 AND q.rank >= d.head_rank
                          ORDER BY q.rank, q.id LIMIT d.turns) s) h
            ), taken AS (
                -- Found again by their place: whoever might move a PENDING row needs its lane, which is ours.
                UPDATE :schema.workflow_execution_queue q
                SET status = 'CLAIMED', phase = 2, node_id = claimer, fence = next_fence, claimed_at = now_us
                FROM picked p WHERE q.ctid = p.place AND q.phase + 0 = 0
                RETURNING q.id, q.definition_id, q.attempts, q.interruptions, q.cancel_at, q.created_at, q.run_at, q.dispatched_at,
                          q.has_params, q.rank, q.priority, p.*
            ), served AS MATERIALIZED (
                SELECT t.lane_id, t.lane_place, t.stride, t.turns, t.has_room, count(*)::integer AS items, max(t.rank) AS last_rank,
                       max(t.turn) AS last_turn
                FROM taken t GROUP BY t.lane_id, t.lane_place, t.stride, t.turns, t.has_room
            ), charged AS (
                -- What was found counts, not what was planned.
                UPDATE :schema.lanes l
                SET runnable = l.runnable - s.items, pass = l.pass + s.items * s.stride,
                    head_rank = CASE WHEN s.items = s.turns THEN greatest(l.head_rank, s.last_rank) ELSE -9223372036854775808 END,
                    ready = s.items = s.turns AND l.runnable > s.items AND (s.has_room OR NOT closes)
                FROM served s WHERE l.ctid = s.lane_place
            ), advanced AS (
                -- The group stands where its last turn began. Another claim that is just moving it is not waited for.
                UPDATE :schema.executor_groups g SET pass = s.last_turn
                FROM (SELECT max(v.last_turn) AS last_turn FROM served v) s
                WHERE s.last_turn > own_group.pass AND g.id = ANY (ARRAY(
                    SELECT e.id FROM :schema.executor_groups e WHERE e.id = own_group.id FOR NO KEY UPDATE SKIP LOCKED))
                  AND s.last_turn > g.pass
            )
            SELECT t.id, next_fence, t.name, d.name, d.version, t.definition_id,
                   CASE WHEN t.has_params THEN (SELECT p.params FROM :schema.execution_params p WHERE p.id = t.id) END,
                   t.attempts, t.interruptions, false, t.cancel_at IS NOT NULL, t.created_at, t.run_at, t.dispatched_at, now_us,
                   t.priority::integer, NULL::integer, NULL::boolean, NULL::bigint
            FROM taken t LEFT JOIN :schema.workflow_definitions d ON d.id = t.definition_id
            ORDER BY t.turn, t.id;
            GET DIAGNOSTICS part = ROW_COUNT;
            taken := taken + part;
            IF part < dealt.slots THEN
                PERFORM :schema.return_slots(claimer, next_fence, dealt.lane_ids, dealt.turns);
            END IF;
            full_lanes := ARRAY(SELECT u.lane_id FROM unnest(ready.lane_ids, ready.frees, ready.runnables) u (lane_id, free, runnable)
                                WHERE u.free = 0 OR u.runnable = 0);
            IF cardinality(full_lanes) > 0 THEN
                busy := :schema.close_lanes(full_lanes);
            END IF;
        END IF;
    END IF;
    IF taken = 0 AND busy IS NOT NULL THEN
        PERFORM :schema.await_workspace(busy);
    ELSIF taken = 0 AND passed_over THEN
        PERFORM :schema.await_lane(claim_group, from_pass);
    END IF;
    id := NULL;
    claimed_at := now_us;
    lanes := coalesce(lanes, 0);
    more := taken = most OR passed_over;
    RETURN NEXT;
END
$$;

-- A claim was given slots for items that a lane counts and does not have: they go back, and the lane is closed.
CREATE FUNCTION :schema.return_slots(claimer bigint, claim_fence bigint, lane_ids bigint[], turns integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH short AS MATERIALIZED (
        SELECT s.lane_id, s.missing
        FROM (SELECT u.lane_id, u.turns - (SELECT count(*)::integer FROM :schema.workflow_execution_queue q
                                           WHERE q.phase = 2 AND q.node_id = claimer AND q.lane_id = u.lane_id
                                             AND q.fence = claim_fence) AS missing
              FROM unnest(lane_ids, turns) u (lane_id, turns)) s
        WHERE s.missing > 0
    ), closed AS (
        UPDATE :schema.lanes l SET ready = false, head_rank = -9223372036854775808 FROM short s WHERE l.id = s.lane_id
    )
    UPDATE :schema.workspaces w SET slots_used = w.slots_used - s.missing
    FROM short s WHERE w.id = (s.lane_id & 4294967295)::integer;
END
$$;

-- Closes lanes that the caller has locked, as far as there is nothing in them or their workspace is full or paused. The workspaces are
-- not waited for: they would be locked out of order, and one that somebody else holds is likely to get room. Returns one that was
-- passed over for that, or NULL.
CREATE FUNCTION :schema.close_lanes(lane_ids bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wanted constant integer[] := ARRAY(SELECT (u & 4294967295)::integer FROM unnest(lane_ids) u);
    locked constant integer[] := ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.id = ANY (wanted)
                                       FOR NO KEY UPDATE SKIP LOCKED);
    full_ones constant integer[] := ARRAY(SELECT w.id FROM :schema.workspaces w
                                          WHERE w.id = ANY (locked) AND (w.paused OR w.slots_used >= w.slots_max));
BEGIN
    UPDATE :schema.lanes l SET ready = false
    WHERE l.id = ANY (lane_ids) AND (l.workspace_id = ANY (full_ones) OR l.runnable <= 0);
    RETURN (SELECT u FROM unnest(wanted) u WHERE (u IN (SELECT unnest(locked))) IS NOT TRUE LIMIT 1);
END
$$;

-- Somebody holds the workspace on which it depends whether there is anything to claim. Waits for him, a moment, as for a lane.
CREATE FUNCTION :schema.await_workspace(workspace_id integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('lock_timeout', '50ms', true);
    PERFORM 1 FROM :schema.workspaces w WHERE w.id = workspace_id FOR SHARE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;

-- As before, but what a statement reads of the queue is bounded by a condition on the queue alone: the ids of the set. A plan that was made
-- while the queue was empty joined from the queue to the set, and read all of it for each set once a backlog had come.
-- So each join is one of two small sets, and hashed. Rows are found along the primary key, so in the order of their ids.
CREATE OR REPLACE FUNCTION :schema.record(recorder bigint, ids uuid[], fences bigint[], kinds integer[], delays bigint[],
                               was_started boolean[], codes text[], errors text[],
                               step_records integer[], steps text[], step_states text[], step_attempts integer[],
                               step_failures integer[], exit_codes integer[], due_ins bigint[], step_ends boolean[],
                               outputs bytea[], variables bytea[], step_codes text[], step_errors text[])
RETURNS TABLE (place integer, outcome text, slots_freed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    done integer[] := '{}';
    held integer[];
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
            RETURNING q.*, r.n, r.kind, r.was_started, r.code, r.error AS reported,
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
            done := done || part;
            freed := freed || part_freed;
            states := states || part_states;
        END IF;
    END IF;
    IF cardinality(step_records) > 0 THEN
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
