-- What many nodes cost. Eight of them on two processors, 50,000 executions: a claim waits 80 ms for its turn, read 9,700 buffers and
-- served 260 items; now 9,100 and 330. Of one node 8,500 and 320, before and after.
--
-- 1. A claim began with where the ready lanes stood, then waited for its turn: the claims before it had served these by then, and it
-- walked over what they left. It also held a transaction id while it waited, as long as seven claims, so that nobody knew whether
-- it was one of those that open lanes, and all began to look further back (store/postgres/first_pass.h). Now it waits first.
-- 2. The wait was for 100 ms. On a slower machine that is less than eight claims take, so they no longer took turns there. Now a claim
-- waits on while the turn goes from one to the next.
-- 3. The walk from the first ready lane began at the first of its pass, over the dead entries of those that have been served.
-- 4. Of ninety lanes whose workspace was full when the claim looked, twenty still were when it came to close them; all were looked up
-- and locked, their workspaces too.
-- 5. A claim was dated by when it began to wait, which is before the end that made room for it: whoever counted the executions between
-- claimed_at and finished_at found plans passed that never were. Now it is dated when its slots are taken,
-- and a takeover when it takes each item: after the claim that it takes over.
--
-- Nodes of the last version call claim() by the name and with the types that they know. The other offer_lanes() and close_lanes() stay for
-- the claims that are under way while this is migrated.

-- --- the turn ---

-- Which transaction it is that holds an advisory lock, or NULL.
CREATE FUNCTION :schema.turn_holder(turn bigint) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT k.virtualtransaction FROM pg_locks k
    WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1 AND k.classid = (turn >> 32 & 4294967295)::oid
      AND k.objid = (turn & 4294967295)::oid AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    LIMIT 1
$$;

-- Waits for its turn. A claim that is held up holds up nobody for longer than two of these waits; who sees that the turn has gone
-- from one to another waits on, for ten of them at the most. Then some claim at the same time, which only costs more.
CREATE OR REPLACE FUNCTION :schema.await_turn(claim_group text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '100ms' AS $$
DECLARE
    turn constant bigint := hashtextextended(:'schema' || '.claim ' || claim_group, 0);
    holder text;
    holder_before text;
BEGIN
    IF pg_try_advisory_xact_lock(turn) THEN
        RETURN;
    END IF;
    FOR try IN 1 .. 10 LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(turn);
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            holder_before := holder;
        END;
        holder := :schema.turn_holder(turn);
        EXIT WHEN holder = holder_before;
    END LOOP;
END
$$;

-- --- lanes ---

-- As before, from a lane on, and it is for the caller to wait for his turn.
CREATE FUNCTION :schema.offer_lanes(claim_group text, from_pass bigint, from_lane bigint, most integer, OUT lane_ids bigint[],
                                    OUT lane_places tid[], OUT workspace_ids integer[], OUT workspace_places tid[],
                                    OUT names text[], OUT passes bigint[], OUT strides integer[], OUT runnables bigint[],
                                    OUT head_ranks bigint[], OUT frees integer[], OUT left_over boolean)
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
        SELECT l.id, l.ctid AS place, l.workspace_id, w.place AS workspace_place, w.name, l.pass, 720720 / w.weight AS stride,
               l.runnable, l.head_rank, CASE WHEN w.paused THEN 0 ELSE greatest(w.slots_max - w.slots_used, 0) END AS free
        FROM :schema.lanes l
        CROSS JOIN LATERAL (SELECT o.ctid AS place, o.name, o.weight, o.paused, o.slots_max, o.slots_used
                            FROM :schema.workspaces o
                            WHERE o.id BETWEEN l.workspace_id AND l.workspace_id ORDER BY o.id DESC LIMIT 1) w
        WHERE l.executor_group = claim_group AND l.ready AND (l.pass, l.id) >= (from_pass, from_lane)
        ORDER BY l.pass, l.id LIMIT looked_most FOR NO KEY UPDATE OF l SKIP LOCKED
    LOOP
        lane_ids := lane_ids || lane.id;
        lane_places := lane_places || lane.place;
        workspace_ids := workspace_ids || lane.workspace_id;
        workspace_places := workspace_places || lane.workspace_place;
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
                           WHERE l.executor_group = claim_group AND l.ready AND (l.pass, l.id) >= (from_pass, from_lane));
END
$$;

-- As before (0022), but only those are locked, looked up and changed that are to be closed now: `frees` is what the workspaces had
-- when the lanes were chosen, and most of them have room again. The lanes are the caller's, and stand where he locked them.
CREATE FUNCTION :schema.close_lanes(lane_ids bigint[], lane_places tid[], frees integer[], runnables bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    still_full constant integer[] := ARRAY(
        SELECT w.id
        FROM (SELECT (u.lane_id & 4294967295)::integer AS workspace_id FROM unnest(lane_ids, frees) u (lane_id, free) WHERE u.free = 0) f
        CROSS JOIN LATERAL (SELECT o.id, o.paused, o.slots_used, o.slots_max FROM :schema.workspaces o
                            WHERE o.id BETWEEN f.workspace_id AND f.workspace_id ORDER BY o.id DESC LIMIT 1) w
        WHERE w.paused OR w.slots_used >= w.slots_max);
    locked integer[] := '{}';
    full_ones integer[] := '{}';
BEGIN
    IF cardinality(still_full) > 0 THEN
        locked := :schema.lock_workspaces(still_full);
        full_ones := ARRAY(
            SELECT u FROM unnest(locked) u
            WHERE (SELECT w.paused OR w.slots_used >= w.slots_max FROM :schema.workspaces w
                   WHERE w.id BETWEEN u AND u ORDER BY w.id DESC LIMIT 1));
    END IF;
    UPDATE :schema.lanes l SET ready = false
    FROM unnest(lane_ids, lane_places, runnables) u (lane_id, place, runnable)
    WHERE l.ctid = u.place AND (((u.lane_id & 4294967295)::integer IN (SELECT unnest(full_ones))) IS TRUE OR u.runnable <= 0);
    RETURN (SELECT u FROM unnest(still_full) u WHERE (u IN (SELECT unnest(locked))) IS NOT TRUE LIMIT 1);
END
$$;

-- --- claim ---

-- As before, when it is this claim's turn: nothing is looked at or written before.
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
    now_us bigint;
    granted_us bigint;
    closes constant boolean := most < 64;
    own_group record;
    first_ready record;
    is_paused boolean;
    dead_left boolean;
    passed_over boolean := false;
    ready record;
    dealt record;
    late record;
    busy integer;
    next_fence bigint;
    taken integer := 0;
    part integer;
    workflows_most constant integer := 8;
BEGIN
    PERFORM :schema.await_turn(claim_group);
    now_us := :schema.store_time();
    SELECT g.id, g.pass, g.paused, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS seen_below INTO own_group
    FROM :schema.executor_groups g
    WHERE g.name BETWEEN claim_group AND claim_group ORDER BY g.name DESC LIMIT 1;
    SELECT l.pass, l.id INTO first_ready
    FROM :schema.lanes l WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass ORDER BY l.pass, l.id LIMIT 1;
    dead_left := EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                         WHERE q.phase = 2 AND q.node_id = 0
                           AND q.lane_id >= own_group.id::bigint << 32 AND q.lane_id < (own_group.id::bigint + 1) << 32);
    IF dead_left OR first_ready.id IS NOT NULL THEN
        is_paused := own_group.paused OR (SELECT s.queue_paused FROM :schema.store_state s WHERE s.id = 1);
    END IF;
    -- Reads only when there is nothing to do.
    IF (dead_left OR first_ready.id IS NOT NULL AND NOT is_paused) AND :schema.node_may_claim(claimer) THEN
        -- Running work is taken over also while the queue is paused: it is no new claim.
        IF dead_left THEN
            next_fence := nextval(':schema.fences');
            RETURN QUERY
            WITH taken AS (
                UPDATE :schema.workflow_execution_queue q
                SET node_id = claimer, fence = next_fence, claimed_at = :schema.store_time(), cancel_sent = true
                WHERE q.id = ANY (ARRAY(
                    SELECT h.id FROM :schema.workflow_execution_queue h
                    WHERE h.phase = 2 AND h.node_id = 0
                      AND h.lane_id >= own_group.id::bigint << 32 AND h.lane_id < (own_group.id::bigint + 1) << 32
                    ORDER BY h.lane_id LIMIT most FOR NO KEY UPDATE SKIP LOCKED))
                RETURNING q.*
            )
            SELECT t.id, t.fence, w.name, d.name, d.version, t.definition_id, p.params, t.attempts, t.interruptions, true,
                   t.cancel_at IS NOT NULL, t.created_at, t.run_at, t.dispatched_at,
                   t.claimed_at, t.priority::integer, NULL::integer, NULL::boolean, NULL::bigint
            FROM taken t JOIN :schema.workspaces w ON w.id = t.workspace_id
            LEFT JOIN :schema.workflow_definitions d ON d.id = t.definition_id
            LEFT JOIN :schema.execution_params p ON t.has_params AND p.id = t.id;
            GET DIAGNOSTICS taken = ROW_COUNT;
        END IF;
        IF taken < most AND first_ready.id IS NOT NULL AND NOT is_paused THEN
            SELECT * INTO ready FROM :schema.offer_lanes(claim_group, first_ready.pass, first_ready.id, most - taken);
            first_pass := least(first_ready.pass, own_group.pass);
            passed_over := ready.left_over;
            lanes := cardinality(ready.lane_ids);
        END IF;
        IF lanes > 0 THEN
            next_fence := coalesce(next_fence, nextval(':schema.fences'));
            -- Workspaces ascending, as everybody locks them.
            WITH offer AS MATERIALIZED (
                SELECT u.*, least(u.free, u.runnable, most - taken)::integer AS room
                FROM unnest(ready.lane_ids, ready.lane_places, ready.workspace_ids, ready.workspace_places, ready.names, ready.passes,
                            ready.strides, ready.runnables, ready.head_ranks, ready.frees)
                     u (lane_id, lane_place, workspace_id, workspace_place, name, pass, stride, runnable, head_rank, free)
                WHERE u.free > 0 AND u.runnable > 0
            ), enough AS MATERIALIZED (
                -- So many turns of each lane make up the claim: many lanes with many slots are not multiplied out.
                SELECT CASE WHEN count(*) >= most - taken THEN 1
                            WHEN sum(least(o.room, 8)) >= most - taken THEN 8
                            WHEN sum(least(o.room, 64)) >= most - taken THEN 64 ELSE most END AS turns
                FROM offer o
            ), depth AS MATERIALIZED (
                SELECT max(o.pass + least(o.room, (SELECT e.turns FROM enough e)) * o.stride) AS last_pass FROM offer o
            ), share AS MATERIALIZED (
                SELECT t.lane_id, t.lane_place, t.workspace_id, t.workspace_place, t.name, t.pass, t.stride, t.head_rank, t.runnable,
                       count(*)::integer AS turns
                FROM (SELECT o.*
                      FROM offer o, depth d, generate_series(0, least(o.room - 1, (d.last_pass - o.pass) / o.stride)) k
                      ORDER BY o.pass + k * o.stride, o.lane_id LIMIT most - taken) t
                GROUP BY t.workspace_id, t.workspace_place, t.lane_id, t.lane_place, t.name, t.pass, t.stride, t.head_rank, t.runnable
                ORDER BY t.workspace_id
            ), granted AS (
                UPDATE :schema.workspaces w
                SET slots_used = w.slots_used + least(s.turns, w.slots_max - w.slots_used),
                    granted = least(s.turns, w.slots_max - w.slots_used)
                FROM share s
                WHERE w.ctid = s.workspace_place AND NOT w.paused AND w.slots_used < w.slots_max
                RETURNING s.lane_id, s.lane_place, s.name, s.pass, s.stride, s.head_rank, w.granted,
                          w.slots_used < w.slots_max OR s.runnable <= w.granted AS has_room
            )
            SELECT array_agg(a.lane_id) AS lane_ids, array_agg(a.lane_place) AS lane_places, array_agg(a.name) AS names,
                   array_agg(a.pass) AS passes, array_agg(a.stride) AS strides, array_agg(a.head_rank) AS head_ranks,
                   array_agg(a.granted) AS turns, array_agg(a.has_room) AS has_rooms, sum(a.granted) AS slots,
                   (SELECT array_agg(s.lane_id) FROM share s) AS shared_lanes, (SELECT array_agg(s.turns) FROM share s) AS shared_turns
            INTO dealt FROM granted a;
            IF coalesce(cardinality(dealt.lane_ids), 0) < cardinality(dealt.shared_lanes) THEN
                -- Somebody has changed workspaces since the look at them.
                SELECT * INTO late FROM :schema.grant_moved(dealt.shared_lanes, dealt.shared_turns, dealt.lane_ids);
                busy := late.busy;
                passed_over := passed_over OR busy IS NOT NULL;
                SELECT dealt.lane_ids || array_agg(r.lane_id) AS lane_ids, dealt.lane_places || array_agg(r.lane_place) AS lane_places,
                       dealt.names || array_agg(r.name) AS names, dealt.passes || array_agg(r.pass) AS passes,
                       dealt.strides || array_agg(r.stride) AS strides, dealt.head_ranks || array_agg(r.head_rank) AS head_ranks,
                       dealt.turns || array_agg(m.turns) AS turns,
                       dealt.has_rooms || array_agg(m.has_room OR r.runnable <= m.turns) AS has_rooms,
                       coalesce(dealt.slots, 0) + coalesce(sum(m.turns), 0) AS slots
                INTO dealt
                FROM unnest(late.granted_lanes, late.turns, late.has_rooms) m (lane_id, turns, has_room)
                JOIN unnest(ready.lane_ids, ready.lane_places, ready.names, ready.passes, ready.strides, ready.head_ranks, ready.runnables)
                     r (lane_id, lane_place, name, pass, stride, head_rank, runnable) ON r.lane_id = m.lane_id;
            END IF;
            granted_us := :schema.store_time();
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
                SET status = 'CLAIMED', phase = 2, node_id = claimer, fence = next_fence,
                    claimed_at = greatest(granted_us, q.created_at)
                FROM picked p WHERE q.ctid = p.place AND q.phase + 0 = 0
                RETURNING q.id, q.definition_id, q.attempts, q.interruptions, q.cancel_at, q.created_at, q.run_at, q.dispatched_at,
                          q.claimed_at, q.has_params, q.rank, q.priority, p.*
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
                -- The group stands behind where its last turn began. Another claim that is just moving it is not waited for.
                UPDATE :schema.executor_groups g SET pass = s.last_turn + 1
                FROM (SELECT max(v.last_turn) AS last_turn FROM served v) s
                WHERE s.last_turn >= own_group.pass AND g.ctid = ANY (ARRAY(
                    SELECT e.ctid FROM :schema.executor_groups e WHERE e.id BETWEEN own_group.id AND own_group.id
                    ORDER BY e.id DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED))
                  AND s.last_turn >= g.pass
            ), workflows AS MATERIALIZED (
                -- Looked up once each where they are few, as they are where many items are of one workflow.
                SELECT o.id, o.name, o.version
                FROM (SELECT DISTINCT t.definition_id FROM taken t LIMIT workflows_most) u
                JOIN :schema.workflow_definitions o ON o.id = u.definition_id
            )
            SELECT t.id, next_fence, t.name, d.name, d.version, t.definition_id,
                   CASE WHEN t.has_params THEN (SELECT p.params FROM :schema.execution_params p WHERE p.id = t.id) END,
                   t.attempts, t.interruptions, false, t.cancel_at IS NOT NULL, t.created_at, t.run_at, t.dispatched_at,
                   t.claimed_at, t.priority::integer, NULL::integer, NOT t.has_room, NULL::bigint
            FROM taken t
            LEFT JOIN LATERAL (
                SELECT o.name, o.version FROM workflows o
                WHERE (SELECT count(*) FROM workflows) < workflows_most AND o.id = t.definition_id
                UNION ALL
                SELECT o.name, o.version FROM :schema.workflow_definitions o
                WHERE (SELECT count(*) FROM workflows) >= workflows_most AND o.id = t.definition_id) d ON true
            ORDER BY t.turn, t.id;
            GET DIAGNOSTICS part = ROW_COUNT;
            taken := taken + part;
            IF part < dealt.slots THEN
                PERFORM :schema.return_slots(claimer, next_fence, dealt.lane_ids, dealt.turns);
            END IF;
            IF 0 = ANY (ready.frees) OR 0 >= ANY (ready.runnables) THEN
                busy := coalesce(busy, :schema.close_lanes(ready.lane_ids, ready.lane_places, ready.frees, ready.runnables));
            END IF;
        END IF;
    END IF;
    IF taken = 0 AND busy IS NOT NULL THEN
        PERFORM :schema.await_workspace(busy);
    ELSIF taken = 0 AND passed_over THEN
        PERFORM :schema.await_lane(claim_group, first_ready.pass);
    END IF;
    id := NULL;
    fence := own_group.seen_below;
    claimed_at := now_us;
    lanes := coalesce(lanes, 0);
    more := taken = most OR passed_over;
    RETURN NEXT;
END
$$;

-- As before (0026), with 5 of the above.
CREATE OR REPLACE FUNCTION :schema.claim_fresh(claimer bigint, claim_group text, since text, from_pass bigint, wakeups_most integer,
                                    OUT id uuid, OUT fence bigint, OUT workspace text, OUT workflow text, OUT version integer,
                                    OUT definition_id bigint, OUT params bytea, OUT attempts integer, OUT interruptions integer,
                                    OUT handed_over boolean, OUT cancel_requested boolean, OUT created_at bigint, OUT run_at bigint,
                                    OUT dispatched_at bigint, OUT claimed_at bigint, OUT priority integer, OUT lanes integer,
                                    OUT more boolean, OUT first_pass bigint, OUT seen text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    old constant pg_snapshot := :schema.seen_snapshot(since);
    folding constant bigint := hashtextextended(:'schema' || '.freshen_lanes', 0);
    turn constant bigint := hashtextextended(:'schema' || '.claim ' || claim_group, 0);
    news record;
    own record;
    lane record;
    stride integer;
    item_rank bigint;
BEGIN
    IF pg_try_advisory_xact_lock(folding) THEN
        -- As fold_wakeups() reads it, but whether it is one is all that matters here.
        SELECT pg_current_snapshot()::text AS shown, count(*) AS wakeups, (array_agg(w.place))[1] AS place, min(w.lane_id) AS lane_id,
               min(w.runnable) AS runnable, min(w.waiting) AS waiting, min(w.least_rank) AS least_rank,
               EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.phase = 1 AND q.due_at <= now_us) AS due
        INTO news
        FROM (SELECT o.*
              FROM :schema.ended_since(old) x (xid)
              CROSS JOIN LATERAL (SELECT u.ctid AS place, u.lane_id, u.runnable, u.waiting, u.least_rank FROM :schema.lane_wakeups u
                                  WHERE u.xid = x.xid ORDER BY u.xid, u.n LIMIT 2) o
              UNION ALL
              (SELECT u.ctid AS place, u.lane_id, u.runnable, u.waiting, u.least_rank FROM :schema.lane_wakeups u
               WHERE u.xid >= pg_snapshot_xmax(old) ORDER BY u.xid, u.n LIMIT 2)
              LIMIT 2) w;
        IF news.wakeups = 0 AND NOT news.due THEN
            seen := CASE WHEN length(news.shown) <= 96 THEN news.shown ELSE :schema.snapshot_text(news.shown::pg_snapshot) END;
            left_over := false;
            RETURN;
        END IF;
        IF news.wakeups = 1 AND news.runnable = 1 AND news.waiting = 0 AND NOT news.due AND length(news.shown) <= 96
           AND pg_try_advisory_xact_lock(turn) THEN
            SELECT g.id, g.pass, g.ctid AS place INTO own
            FROM :schema.nodes n
            CROSS JOIN :schema.store_state s
            CROSS JOIN LATERAL (SELECT o.ctid, o.id, o.name, o.pass, o.paused FROM :schema.executor_groups o
                                WHERE o.id BETWEEN (news.lane_id >> 32)::integer AND (news.lane_id >> 32)::integer
                                ORDER BY o.id DESC LIMIT 1) g
            WHERE n.id = claimer AND n.wish = 'run' AND n.dead_at IS NULL AND n.stopped_at IS NULL
              AND s.id = 1 AND NOT s.queue_paused AND g.name = claim_group AND NOT g.paused
              AND NOT EXISTS (SELECT 1 FROM :schema.lanes l WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass)
              AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                              WHERE q.phase = 2 AND q.node_id = 0
                                AND q.lane_id >= g.id::bigint << 32 AND q.lane_id < (g.id::bigint + 1) << 32)
            FOR KEY SHARE OF n;
            IF FOUND THEN
                SELECT l.ctid AS place, l.workspace_id, greatest(l.pass, own.pass) AS pass,
                       least(l.head_rank, news.least_rank) AS head_rank INTO lane
                FROM :schema.lanes l
                WHERE l.ctid = (SELECT o.ctid FROM :schema.lanes o WHERE o.id = news.lane_id ORDER BY o.id, o.pass DESC LIMIT 1)
                  AND NOT l.ready AND l.runnable = 0
                FOR NO KEY UPDATE SKIP LOCKED;
            END IF;
            IF FOUND THEN
                UPDATE :schema.workspaces w SET slots_used = w.slots_used + 1
                WHERE w.ctid = (SELECT o.ctid FROM :schema.workspaces o WHERE o.id BETWEEN lane.workspace_id AND lane.workspace_id
                                ORDER BY o.id DESC LIMIT 1)
                  AND NOT w.paused AND w.slots_used < w.slots_max
                RETURNING w.name, 720720 / w.weight INTO workspace, stride;
            END IF;
            IF FOUND THEN
                UPDATE :schema.workflow_execution_queue q
                SET status = 'CLAIMED', phase = 2, node_id = claimer, fence = nextval(':schema.fences'),
                    claimed_at = greatest(:schema.store_time(), q.created_at)
                WHERE q.ctid = (SELECT h.ctid FROM :schema.workflow_execution_queue h
                                WHERE h.lane_id = news.lane_id AND h.phase = 0 AND h.rank >= lane.head_rank
                                ORDER BY h.rank, h.id LIMIT 1)
                  AND q.phase + 0 = 0
                RETURNING q.id, q.fence, (SELECT d.name FROM :schema.workflow_definitions d WHERE d.id = q.definition_id),
                          (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = q.definition_id), q.definition_id,
                          CASE WHEN q.has_params THEN (SELECT p.params FROM :schema.execution_params p WHERE p.id = q.id) END,
                          q.attempts, q.interruptions, false, q.cancel_at IS NOT NULL, q.created_at, q.run_at, q.dispatched_at,
                          q.claimed_at, q.priority, 1, false, own.pass, news.shown, false, q.rank
                INTO id, fence, workflow, version, definition_id, params, attempts, interruptions, handed_over, cancel_requested,
                     created_at, run_at, dispatched_at, claimed_at, priority, lanes, more, first_pass, seen, left_over, item_rank;
                IF FOUND THEN
                    -- What the fold would add to the lane, the claim would take away again.
                    DELETE FROM :schema.lane_wakeups u WHERE u.ctid = news.place;
                    UPDATE :schema.lanes l SET pass = lane.pass + stride, head_rank = item_rank WHERE l.ctid = lane.place;
                    -- The group stands behind where its last turn began. Another claim that is just moving it is not waited for.
                    UPDATE :schema.executor_groups g SET pass = lane.pass + 1
                    WHERE g.ctid = (SELECT o.ctid FROM :schema.executor_groups o WHERE o.ctid = own.place FOR NO KEY UPDATE SKIP LOCKED)
                      AND g.pass <= lane.pass;
                    RETURN;
                END IF;
                -- The item is not there; freshen_lanes() and claim() say what becomes of its lane.
                UPDATE :schema.workspaces w SET slots_used = w.slots_used - 1 WHERE w.id = lane.workspace_id;
            END IF;
        END IF;
    END IF;
    SELECT f.seen, f.left_over INTO seen, left_over FROM :schema.freshen_lanes(since, wakeups_most) f;
END
$$;
