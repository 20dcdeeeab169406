-- A claim tells of each item whether others wait for a slot behind it, from what it reads and locks anyway: `more` of its row, which
-- was NULL. Nodes of the last version look at `more` in the last row only.

-- As before, but `has_room` says also of a lane that is emptied that nothing waits for want of a slot; such a lane is closed for
-- having nothing left. `more` of an item's row: its workspace is full with this claim, and its lane has more that could run.
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
                FROM (SELECT t.lane_id, t.lane_place, t.workspace_id, t.name, t.pass, t.stride, t.head_rank, t.runnable,
                             count(*)::integer AS turns
                      FROM (SELECT o.*
                            FROM offer o, depth d, generate_series(0, least(o.room - 1, (d.last_pass - o.pass) / o.stride)) k
                            ORDER BY o.pass + k * o.stride, o.lane_id LIMIT most - taken) t
                      GROUP BY t.workspace_id, t.lane_id, t.lane_place, t.name, t.pass, t.stride, t.head_rank, t.runnable
                      ORDER BY t.workspace_id) s
                WHERE w.id = s.workspace_id AND NOT w.paused AND w.slots_used < w.slots_max
                RETURNING s.lane_id, s.lane_place, s.name, s.pass, s.stride, s.head_rank, w.granted,
                          w.slots_used < w.slots_max OR s.runnable <= w.granted AS has_room
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
                   t.priority::integer, NULL::integer, NOT t.has_room, NULL::bigint
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
