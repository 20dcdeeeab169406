-- Beside a transaction that somebody keeps open (0010) a claim cost 16 times the buffers after ten minutes, 60,000 claims and 600,000
-- executions, with one workspace 20 times: each look-up of a workspace or of an executor group by its id or name walked the
-- versions that had died, of which each claim and each record leaves one. Now all that runs per claim, record and enqueue finds them
-- newest first.
--
-- What only reads needs no more than that: the version that the statement's snapshot shows is right, as it was by the plain look-up.
-- What updates a workspace finds the place (ctid) of that version first and updates what stands there. Somebody may have changed it
-- meanwhile. Then the server waits for him, locks the version that he left, and either goes on with it or, since the minor versions of
-- November 2025 (13.23, 14.20, 15.15, 16.11, 17.7), passes it over because it stands elsewhere. So who updates by a place counts
-- what was updated, and does the rest again by their new places: those are locked already, so nobody is waited for out of order.
-- Where the look was a statement earlier (claim()), the row may also be gone from there without having been locked; then it is
-- locked without waiting, or left to the next claim. Nothing else can stand there: no version is removed that the statement which
-- called the function might see.
--
-- Records and enqueues follow in 0023 and 0024, with what else changes in their functions.
--
-- Nodes of the last version call these functions by the names and with the types that they know. choose_lanes() stays for the
-- claims that are under way while this is migrated.

-- --- what is found newest first ---

-- All groups. Each is the greatest below the last one: read upwards, an index shows what has died before what lives.
CREATE FUNCTION :schema.group_ids() RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    ids integer[] := '{}';
    next_id integer := (SELECT g.id FROM :schema.executor_groups g ORDER BY g.id DESC LIMIT 1);
BEGIN
    WHILE next_id IS NOT NULL LOOP
        ids := ids || next_id;
        next_id := (SELECT g.id FROM :schema.executor_groups g WHERE g.id < next_id ORDER BY g.id DESC LIMIT 1);
    END LOOP;
    RETURN ids;
END
$$;

-- Those of the wanted workspaces that nobody else has locked, locked. One that is changed at this moment is as one that is locked.
CREATE FUNCTION :schema.lock_workspaces(wanted integer[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN ARRAY(
        SELECT w.id
        FROM (SELECT n.place
              FROM unnest(wanted) u (id)
              CROSS JOIN LATERAL (SELECT o.ctid AS place FROM :schema.workspaces o WHERE o.id BETWEEN u.id AND u.id
                                  ORDER BY o.id DESC LIMIT 1) n) p
        JOIN :schema.workspaces w ON w.ctid = p.place FOR NO KEY UPDATE OF w SKIP LOCKED);
END
$$;

-- As before; the group is found newest first, too.
CREATE OR REPLACE FUNCTION :schema.change_lanes(lane_ids bigint[], runnables bigint[], waitings bigint[], least_ranks bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE :schema.lanes l
    SET runnable = l.runnable + c.runnable, waiting = l.waiting + c.waiting, head_rank = least(l.head_rank, c.least_rank),
        ready = l.ready OR (l.runnable + c.runnable > 0 AND c.has_room),
        pass = CASE WHEN NOT l.ready AND l.runnable + c.runnable > 0 AND c.has_room THEN greatest(l.pass, c.group_pass) ELSE l.pass END
    FROM (SELECT u.*, n.place, w.has_room, g.pass AS group_pass
          FROM unnest(lane_ids, runnables, waitings, least_ranks) u (lane_id, runnable, waiting, least_rank)
          CROSS JOIN LATERAL (SELECT o.ctid AS place, o.workspace_id FROM :schema.lanes o WHERE o.id = u.lane_id
                              ORDER BY o.id, o.pass DESC LIMIT 1) n
          CROSS JOIN LATERAL (SELECT NOT o.paused AND o.slots_used < o.slots_max AS has_room FROM :schema.workspaces o
                              WHERE o.id BETWEEN n.workspace_id AND n.workspace_id ORDER BY o.id DESC LIMIT 1) w
          CROSS JOIN LATERAL (SELECT o.pass FROM :schema.executor_groups o
                              WHERE o.id BETWEEN (u.lane_id >> 32)::integer AND (u.lane_id >> 32)::integer
                              ORDER BY o.id DESC LIMIT 1) g) c
    WHERE l.ctid = c.place
      AND (c.runnable <> 0 OR c.waiting <> 0 OR NOT l.ready AND l.runnable > 0 AND c.has_room);
END
$$;

-- As before; the group is found newest first.
CREATE OR REPLACE FUNCTION :schema.look(looker bigint, look_group text, since text, from_pass bigint, OUT ready boolean,
                                        OUT handed_over boolean, OUT due_at bigint, OUT requests boolean, OUT runs boolean,
                                        OUT paused boolean, OUT now_us bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    old pg_snapshot;
    least_lane bigint;
    most_lane bigint;
    folds_at constant integer := 200;
    fresh bigint[];
    runnables integer[];
BEGIN
    now_us := :schema.store_time();
    SELECT g.id::bigint << 32, (g.id::bigint + 1) << 32, g.paused INTO least_lane, most_lane, paused
    FROM :schema.executor_groups g WHERE g.name BETWEEN look_group AND look_group ORDER BY g.name DESC LIMIT 1;
    requests := EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                        WHERE q.node_id = looker AND q.cancel_at IS NOT NULL AND NOT q.cancel_sent);
    due_at := (SELECT q.due_at FROM :schema.workflow_execution_queue q WHERE q.phase = 1 ORDER BY q.due_at LIMIT 1);
    handed_over := EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                           WHERE q.phase = 2 AND q.node_id = 0 AND q.lane_id >= least_lane AND q.lane_id < most_lane);
    ready := EXISTS (SELECT 1 FROM :schema.lanes l WHERE l.executor_group = look_group AND l.ready AND l.pass >= from_pass);
    IF NOT ready THEN
        old := :schema.seen_snapshot(since);
        SELECT array_agg(n.lane_id), array_agg(n.runnable) INTO fresh, runnables
        FROM (SELECT w.lane_id, w.runnable
              FROM (SELECT o.lane_id, o.runnable
                    FROM pg_snapshot_xip(old) x (xid)
                    CROSS JOIN LATERAL (SELECT u.lane_id, u.runnable FROM :schema.lane_wakeups u WHERE u.xid = x.xid
                                        ORDER BY u.xid, u.n LIMIT folds_at) o
                    UNION ALL
                    (SELECT u.lane_id, u.runnable FROM :schema.lane_wakeups u WHERE u.xid >= pg_snapshot_xmax(old)
                     ORDER BY u.xid, u.n LIMIT folds_at)) w
              LIMIT folds_at) n;
        ready := cardinality(fresh) = folds_at
                 OR EXISTS (SELECT 1 FROM unnest(fresh, runnables) u (lane_id, runnable)
                            WHERE u.lane_id >= least_lane AND u.lane_id < most_lane
                              AND (u.runnable > 0 OR (SELECT l.runnable > 0 FROM :schema.lanes l WHERE l.id = u.lane_id
                                                     ORDER BY l.id, l.pass DESC LIMIT 1))
                              AND (SELECT NOT w.paused AND w.slots_used < w.slots_max FROM :schema.workspaces w
                                   WHERE w.id BETWEEN (u.lane_id & 4294967295)::integer AND (u.lane_id & 4294967295)::integer
                                   ORDER BY w.id DESC LIMIT 1));
    END IF;
    IF ready OR handed_over OR due_at IS NOT NULL THEN
        runs := EXISTS (SELECT 1 FROM :schema.nodes n
                        WHERE n.id = looker AND n.wish = 'run' AND n.dead_at IS NULL AND n.stopped_at IS NULL);
        paused := coalesce(paused, false) OR (SELECT s.queue_paused FROM :schema.store_state s WHERE s.id = 1);
    END IF;
END
$$;

-- --- claim ---

-- As choose_lanes() (0012), and tells where each workspace stood.
CREATE FUNCTION :schema.offer_lanes(claim_group text, from_pass bigint, most integer, OUT lane_ids bigint[],
                                    OUT lane_places tid[], OUT workspace_ids integer[], OUT workspace_places tid[],
                                    OUT names text[], OUT passes bigint[], OUT strides integer[], OUT runnables bigint[],
                                    OUT head_ranks bigint[], OUT frees integer[], OUT first_pass bigint, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET enable_sort = off AS $$
DECLARE
    lane record;
    spread constant integer := CASE WHEN most < 64 THEN 1 ELSE 8 END;
    turns integer := 0;
    looked integer := 0;
    looked_most constant integer := 4 * most + 100;
BEGIN
    PERFORM :schema.await_turn(claim_group);
    lane_ids := '{}';
    left_over := true;
    FOR lane IN
        SELECT l.id, l.ctid AS place, l.workspace_id, w.place AS workspace_place, w.name, l.pass, 720720 / w.weight AS stride,
               l.runnable, l.head_rank, CASE WHEN w.paused THEN 0 ELSE greatest(w.slots_max - w.slots_used, 0) END AS free
        FROM :schema.lanes l
        CROSS JOIN LATERAL (SELECT o.ctid AS place, o.name, o.weight, o.paused, o.slots_max, o.slots_used
                            FROM :schema.workspaces o
                            WHERE o.id BETWEEN l.workspace_id AND l.workspace_id ORDER BY o.id DESC LIMIT 1) w
        WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass
        ORDER BY l.pass, l.id LIMIT looked_most FOR NO KEY UPDATE OF l SKIP LOCKED
    LOOP
        first_pass := coalesce(first_pass, lane.pass);
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
                           WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass);
END
$$;

-- The slots of workspaces that were not where the claim had looked. It has locked others by now, so none is waited for.
--   granted_before   lanes that have got theirs
--   busy             a workspace that somebody else holds, or NULL
CREATE FUNCTION :schema.grant_moved(lane_ids bigint[], wanted_turns integer[], granted_before bigint[], OUT granted_lanes bigint[],
                                    OUT turns integer[], OUT has_rooms boolean[], OUT busy integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wanted constant integer[] := ARRAY(SELECT (u & 4294967295)::integer FROM unnest(lane_ids) u
                                       WHERE (u IN (SELECT unnest(granted_before))) IS NOT TRUE);
    locked constant integer[] := :schema.lock_workspaces(wanted);
BEGIN
    WITH granted AS (
        UPDATE :schema.workspaces w
        SET slots_used = w.slots_used + least(s.turns, w.slots_max - w.slots_used),
            granted = least(s.turns, w.slots_max - w.slots_used)
        FROM (SELECT u.lane_id, u.turns, n.place
              FROM unnest(lane_ids, wanted_turns) u (lane_id, turns)
              CROSS JOIN LATERAL (SELECT o.ctid AS place FROM :schema.workspaces o
                                  WHERE o.id BETWEEN (u.lane_id & 4294967295)::integer AND (u.lane_id & 4294967295)::integer
                                  ORDER BY o.id DESC LIMIT 1) n
              WHERE (u.lane_id & 4294967295)::integer = ANY (locked)) s
        WHERE w.ctid = s.place AND NOT w.paused AND w.slots_used < w.slots_max
        RETURNING s.lane_id, w.granted, w.slots_used < w.slots_max AS has_room
    )
    SELECT array_agg(g.lane_id), array_agg(g.granted), array_agg(g.has_room) INTO granted_lanes, turns, has_rooms FROM granted g;
    busy := (SELECT u FROM unnest(wanted) u WHERE (u IN (SELECT unnest(locked))) IS NOT TRUE LIMIT 1);
END
$$;

-- As before, but workspaces are updated where they were seen, and the group where it is found newest first. And the claim tells of each
-- item whether others wait for a slot behind it, from what it reads and locks anyway: `more` of its row, which was NULL, says that its
-- workspace is full with this claim and its lane has more that could run. So `has_room` says also of a lane that is emptied that nothing
-- waits for want of a slot; such a lane is closed for having nothing left. Nodes of the last version look at `more` in the last row only.
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
    late record;
    full_lanes bigint[];
    busy integer;
    next_fence bigint;
    taken integer := 0;
    part integer;
BEGIN
    SELECT * INTO work FROM :schema.look(claimer, claim_group, since, from_pass);
    SELECT g.id, g.pass INTO own_group FROM :schema.executor_groups g
    WHERE g.name BETWEEN claim_group AND claim_group ORDER BY g.name DESC LIMIT 1;
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
            SELECT * INTO ready FROM :schema.offer_lanes(claim_group, from_pass, most - taken);
            first_pass := CASE WHEN ready.first_pass IS NOT NULL THEN least(ready.first_pass, own_group.pass) END;
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
                WHERE s.last_turn > own_group.pass AND g.ctid = ANY (ARRAY(
                    SELECT e.ctid FROM :schema.executor_groups e WHERE e.id BETWEEN own_group.id AND own_group.id
                    ORDER BY e.id DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED))
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
                busy := coalesce(busy, :schema.close_lanes(full_lanes));
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

-- As before; workspaces and lanes are found newest first.
CREATE OR REPLACE FUNCTION :schema.close_lanes(lane_ids bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wanted constant integer[] := ARRAY(SELECT (u & 4294967295)::integer FROM unnest(lane_ids) u);
    locked constant integer[] := :schema.lock_workspaces(wanted);
    full_ones constant integer[] := ARRAY(
        SELECT u FROM unnest(locked) u
        WHERE (SELECT w.paused OR w.slots_used >= w.slots_max FROM :schema.workspaces w
               WHERE w.id BETWEEN u AND u ORDER BY w.id DESC LIMIT 1));
BEGIN
    UPDATE :schema.lanes l SET ready = false
    FROM (SELECT n.place FROM unnest(lane_ids) u (lane_id)
          CROSS JOIN LATERAL (SELECT o.ctid AS place FROM :schema.lanes o WHERE o.id = u.lane_id
                              ORDER BY o.id, o.pass DESC LIMIT 1) n) p
    WHERE l.ctid = p.place AND (l.workspace_id = ANY (full_ones) OR l.runnable <= 0);
    RETURN (SELECT u FROM unnest(wanted) u WHERE (u IN (SELECT unnest(locked))) IS NOT TRUE LIMIT 1);
END
$$;

CREATE OR REPLACE FUNCTION :schema.await_workspace(workspace_id integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('lock_timeout', '50ms', true);
    PERFORM 1 FROM :schema.workspaces w WHERE w.id BETWEEN workspace_id AND workspace_id ORDER BY w.id DESC LIMIT 1 FOR SHARE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;

-- --- indexes ---

-- Equal entries that are packed into one come out oldest first whatever the direction of the scan: up to two hundred dead versions
-- would be walked before the newest. What is packed already stays so until it is vacuumed away; what comes later lies behind it.
ALTER INDEX :schema.workspaces_pkey SET (deduplicate_items = off);
ALTER INDEX :schema.workspaces_name_key SET (deduplicate_items = off);
ALTER INDEX :schema.executor_groups_pkey SET (deduplicate_items = off);
ALTER INDEX :schema.executor_groups_name_key SET (deduplicate_items = off);

-- A version that finds no room on the page of the one before makes new entries, and each is compared with all that are there, dead or not,
-- because id and name are unique. With a tenth of the page for first versions nine of ten find room instead of three of four, so
-- there are fewer entries, and fewer times at which they are walked. A thousand workspaces then take 140 pages instead of 28.
ALTER TABLE :schema.workspaces SET (fillfactor = 10);
