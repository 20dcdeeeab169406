-- The verbs that nodes call hundreds of times a second, each a function: one round trip, one transaction that the server ends
-- by itself. A node that is stopped in the middle of a verb so never holds a lock: between two statements of an open
-- transaction it would, for as long as it sleeps.
--
-- In a VOLATILE function under READ COMMITTED each statement has a snapshot of its own. That is used on purpose: rows are
-- locked in one statement and looked at in the next, which sees what the lock was waited for (design 3.4).
--
-- SET enable_...: the plans are fixed. Every join is a loop over a small array or set that looks rows up by an index; statistics
-- that are out of date by a hundred thousand rows (they are, all the time) must not turn one of them into a scan of a table.
-- For the same reason a row that is found by its id is asked for its phase as phase + 0: by the plain column the planner, which
-- has never seen a held row, would walk the partial index of all held rows instead.
-- Arrays instead of temporary tables: those would write the catalog. PL/pgSQL also for the small ones: it keeps plans.

-- --- lanes ---

-- What is added to lanes that the caller has locked. A lane opens where its group's stride stands, so it cannot have saved up
-- turns. It is never closed here: only a claim does that, with the workspace locked. Reading the workspace without a lock is
-- right: who frees a slot of a full workspace inserts a wake-up for each of its lanes, so a lane that is left closed because of
-- an old count is looked at again after that commit.
CREATE FUNCTION :schema.change_lanes(lane_ids bigint[], runnables bigint[], waitings bigint[], least_ranks bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE :schema.lanes l
    SET runnable = l.runnable + c.runnable, waiting = l.waiting + c.waiting, head_rank = least(l.head_rank, c.least_rank),
        ready = l.ready OR (l.runnable + c.runnable > 0 AND NOT w.paused AND w.slots_used < w.slots_max),
        pass = CASE WHEN NOT l.ready AND l.runnable + c.runnable > 0 AND NOT w.paused AND w.slots_used < w.slots_max
                    THEN greatest(l.pass, g.pass) ELSE l.pass END
    FROM unnest(lane_ids, runnables, waitings, least_ranks) c (lane_id, runnable, waiting, least_rank), :schema.workspaces w,
         :schema.executor_groups g
    WHERE l.id = c.lane_id AND w.id = l.workspace_id AND g.name = l.executor_group
      AND (c.runnable <> 0 OR c.waiting <> 0
           OR NOT l.ready AND l.runnable > 0 AND NOT w.paused AND w.slots_used < w.slots_max);
END
$$;

-- A lane's row is made by who first has to lock it. It begins ready: a claim will look and decide. Who makes one holds an advisory
-- lock until his commit, so that others can leave the lane for later instead of waiting for his insert: an operator's act may
-- be part of a long transaction. A fold makes at most 500 at a time: the server's table of locks is small.
--   waits  also for those that somebody else is just making; sorted, so that two wait in one direction only
CREATE FUNCTION :schema.make_lanes(lane_ids bigint[], waits boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    missing bigint[] := ARRAY(SELECT u.lane_id FROM unnest(lane_ids) u (lane_id)
                              WHERE NOT EXISTS (SELECT 1 FROM :schema.lanes l WHERE l.id = u.lane_id)
                              GROUP BY u.lane_id ORDER BY u.lane_id LIMIT CASE WHEN waits THEN NULL ELSE 500 END);
    lane_id bigint;
    name text;
BEGIN
    FOREACH lane_id IN ARRAY missing LOOP
        name := format('%s.lanes %s', :'schema', lane_id);
        IF waits THEN
            PERFORM pg_advisory_xact_lock(hashtextextended(name, 0));
        ELSIF NOT pg_try_advisory_xact_lock(hashtextextended(name, 0)) THEN
            CONTINUE;
        END IF;
        INSERT INTO :schema.lanes (id, executor_group, workspace_id, ready, pass)
        SELECT lane_id, g.name, (lane_id & 4294967295)::integer, true, g.pass
        FROM :schema.executor_groups g WHERE g.id = (lane_id >> 32)::integer
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- Folds what was committed since the last look into lanes. A lane that somebody else has locked is left for the next look. The
-- rows of a lane are deleted only by who holds the lane, so nothing is counted twice; and they are found by their place
-- (ctid), which is not given to another row while this transaction runs.
-- `since`: no row with a lower xid is unfolded. `seen` is that bound for the next look: the oldest transaction that was running.
CREATE FUNCTION :schema.fold_wakeups(since xid8, most integer, OUT seen xid8, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    horizon xid8;
    places tid[];
    wanted bigint[];
    locked bigint[];
    folded bigint[];
    runnables bigint[];
    waitings bigint[];
    least_ranks bigint[];
BEGIN
    -- The bound only grows; when it seems not to, this is another server, and everything is looked at.
    since := CASE WHEN since <= pg_snapshot_xmin(pg_current_snapshot()) THEN since ELSE '0'::xid8 END;
    SELECT pg_snapshot_xmin(pg_current_snapshot()), array_agg(r.place), array_agg(DISTINCT r.lane_id)
    INTO horizon, places, wanted
    FROM (SELECT u.ctid AS place, u.lane_id FROM :schema.lane_wakeups u WHERE u.xid >= since ORDER BY u.xid, u.n LIMIT most) r;
    IF places IS NULL THEN
        seen := horizon;
        left_over := false;
        RETURN;
    END IF;
    PERFORM :schema.make_lanes(wanted, false);
    locked := ARRAY(SELECT l.id FROM :schema.lanes l WHERE l.id = ANY (wanted) ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED);
    left_over := cardinality(locked) < cardinality(wanted);
    WITH gone AS (
        DELETE FROM :schema.lane_wakeups u
        WHERE u.ctid = ANY (places) AND (NOT left_over OR u.lane_id = ANY (locked))
        RETURNING u.lane_id, u.runnable, u.waiting, u.least_rank
    ), sums AS (
        SELECT d.lane_id, sum(d.runnable) AS runnable, sum(d.waiting) AS waiting, min(d.least_rank) AS least_rank
        FROM gone d GROUP BY d.lane_id
    )
    SELECT array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.waiting), array_agg(s.least_rank)
    INTO folded, runnables, waitings, least_ranks FROM sums s;
    PERFORM :schema.change_lanes(folded, runnables, waitings, least_ranks);
    left_over := left_over OR cardinality(places) >= most;
    seen := CASE WHEN left_over THEN since ELSE horizon END;
END
$$;

-- Items whose time has come become runnable, whatever their group; at most `most`, but for those of lanes that are locked.
CREATE FUNCTION :schema.promote_due(now_us bigint, most integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    due uuid[];
    locked bigint[];
    promoted bigint[];
    counts bigint[];
    least_ranks bigint[];
BEGIN
    SELECT array_agg(r.id), array_agg(DISTINCT r.lane_id) INTO due, locked
    FROM (SELECT q.id, q.lane_id FROM :schema.workflow_execution_queue q
          WHERE q.phase = 1 AND q.due_at <= now_us ORDER BY q.due_at LIMIT most) r;
    IF due IS NULL THEN
        RETURN;
    END IF;
    PERFORM :schema.make_lanes(locked, false);
    locked := ARRAY(SELECT l.id FROM :schema.lanes l WHERE l.id = ANY (locked) ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED);
    WITH moved AS (
        UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL
        WHERE q.id = ANY (due) AND q.phase + 0 = 1 AND q.due_at <= now_us AND q.lane_id = ANY (locked)
        RETURNING q.lane_id, q.rank
    ), sums AS (
        SELECT m.lane_id, count(*) AS runnable, min(m.rank) AS least_rank FROM moved m GROUP BY m.lane_id
    )
    SELECT array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.least_rank) INTO promoted, counts, least_ranks FROM sums s;
    PERFORM :schema.change_lanes(promoted, counts, ARRAY(SELECT -c FROM unnest(counts) c), least_ranks);
END
$$;

-- --- claim ---

-- Is there anything to do? One row, nothing is written or locked. Indexes: lanes_ready, lane_wakeups by xid, queue_held (node 0),
-- queue_waiting, queue_requests; its cost does not depend on what is queued.
-- Wake-ups count when their lane could be served: new work of a full workspace is nothing to do. Many of them are worth a claim
-- in any case, that folds them.
--   ready     new claims are possible       taken     something was handed over and waits for a node
--   due_at    the next scheduled item's     runs      the node may claim         paused     the queue or the group is
-- The last two are only looked up when there is something to claim or to wait for.
CREATE FUNCTION :schema.look(looker bigint, look_group text, since xid8, from_pass bigint, OUT ready boolean, OUT handed_over boolean,
                             OUT due_at bigint, OUT requests boolean, OUT runs boolean, OUT paused boolean, OUT now_us bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    least_lane bigint;
    most_lane bigint;
    folds_at constant integer := 200;
BEGIN
    now_us := :schema.store_time();
    SELECT g.id::bigint << 32, (g.id::bigint + 1) << 32, g.paused INTO least_lane, most_lane, paused
    FROM :schema.executor_groups g WHERE g.name = look_group;
    requests := EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                        WHERE q.node_id = looker AND q.cancel_at IS NOT NULL AND NOT q.cancel_sent);
    due_at := (SELECT q.due_at FROM :schema.workflow_execution_queue q WHERE q.phase = 1 ORDER BY q.due_at LIMIT 1);
    handed_over := EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                           WHERE q.phase = 2 AND q.node_id = 0 AND q.lane_id >= least_lane AND q.lane_id < most_lane);
    ready := EXISTS (SELECT 1 FROM :schema.lanes l WHERE l.executor_group = look_group AND l.ready AND l.pass >= from_pass)
             OR coalesce((SELECT count(*) = folds_at
                                 OR bool_or(u.lane_id >= least_lane AND u.lane_id < most_lane AND (u.runnable > 0 OR l.runnable > 0)
                                            AND NOT w.paused AND w.slots_used < w.slots_max)
                          FROM (SELECT f.lane_id, f.runnable FROM :schema.lane_wakeups f
                                WHERE f.xid >= least(since, pg_snapshot_xmin(pg_current_snapshot())) ORDER BY f.xid, f.n LIMIT folds_at) u
                          LEFT JOIN :schema.lanes l ON l.id = u.lane_id
                          LEFT JOIN :schema.workspaces w ON w.id = (u.lane_id & 4294967295)::integer), false);
    IF ready OR handed_over OR due_at IS NOT NULL THEN
        runs := EXISTS (SELECT 1 FROM :schema.nodes n
                        WHERE n.id = looker AND n.wish = 'run' AND n.dead_at IS NULL AND n.stopped_at IS NULL);
        paused := coalesce(paused, false) OR (SELECT s.queue_paused FROM :schema.store_state s WHERE s.id = 1);
    END IF;
END
$$;

-- A node may claim when it runs and nobody has declared it dead. The lock on its row makes that stay true until the commit: who
-- declares it dead waits for it, and so finds what is claimed here. A heartbeat does not wait for it.
CREATE FUNCTION :schema.node_may_claim(claimer bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM :schema.nodes n
    WHERE n.id = claimer AND n.wish = 'run' AND n.dead_at IS NULL AND n.stopped_at IS NULL FOR KEY SHARE;
    RETURN FOUND;
END
$$;

-- The ready lanes that can fill the claim, in stride order, locked; a lane that another claim holds is passed over.
--   most < 64    as many lanes as items: every lane gets its turn in order
--   else         as many as fill the claim with 8 turns each: a lane's rows lie together, so that a large claim touches a
--                fraction of the pages. The lanes left out stand first in the next claim.
-- What is told of a lane is what its locked version says (a row that somebody changed meanwhile is read again when it is locked),
-- so nobody need look it up again: it stands at its place, unchanged, until this transaction ends. Of the workspace that is not
-- so: it is not locked, and only good for a guess of how many lanes are needed.
CREATE FUNCTION :schema.lock_ready_lanes(claim_group text, from_pass bigint, most integer, OUT lane_ids bigint[],
                                         OUT lane_places tid[], OUT workspace_ids integer[], OUT passes bigint[],
                                         OUT runnables bigint[], OUT head_ranks bigint[], OUT first_pass bigint,
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
        SELECT l.id, l.ctid AS place, l.workspace_id, l.pass, l.runnable, l.head_rank,
               least(l.runnable, spread, CASE WHEN w.paused THEN 0 ELSE w.slots_max - w.slots_used END) AS room
        FROM :schema.lanes l JOIN :schema.workspaces w ON w.id = l.workspace_id
        WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass
        ORDER BY l.pass, l.id LIMIT looked_most FOR NO KEY UPDATE OF l SKIP LOCKED
    LOOP
        first_pass := coalesce(first_pass, lane.pass);
        lane_ids := lane_ids || lane.id;
        lane_places := lane_places || lane.place;
        workspace_ids := workspace_ids || lane.workspace_id;
        passes := passes || lane.pass;
        runnables := runnables || lane.runnable;
        head_ranks := head_ranks || lane.head_rank;
        turns := turns + greatest(lane.room, 0);
        looked := looked + 1;
        IF turns >= most OR looked = looked_most THEN
            RETURN;
        END IF;
    END LOOP;
    left_over := looked < (SELECT count(*) FROM :schema.lanes l
                           WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass);
END
$$;

-- Before a claim: brings lanes up to date with what was committed and what has become due. A transaction of its own, because it
-- locks every lane that something happened to, and a claim only those that it serves: other nodes' claims need not go round
-- them for long. It need not reach the disk before the claim does; after a crash the rows are folded again.
-- One at a time: a second one would find the same rows and none of their lanes. It waits a moment instead, and what it waited
-- for is done then. The advisory lock is only for that; nothing goes wrong without it.
CREATE FUNCTION :schema.freshen_lanes(since xid8, most integer, OUT seen xid8, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    now_us bigint := :schema.store_time();
    folding constant bigint := hashtextextended(:'schema' || '.freshen_lanes', 0);
BEGIN
    SELECT pg_snapshot_xmin(pg_current_snapshot()),
           EXISTS (SELECT 1 FROM :schema.lane_wakeups u WHERE u.xid >= least(since, pg_snapshot_xmin(pg_current_snapshot())))
           OR EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.phase = 1 AND q.due_at <= now_us)
    INTO seen, left_over;
    IF NOT left_over THEN
        RETURN;
    END IF;
    IF pg_try_advisory_xact_lock(folding) THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        SELECT f.seen, f.left_over INTO seen, left_over FROM :schema.fold_wakeups(since, most) f;
        PERFORM :schema.promote_due(now_us, 1000);
        RETURN;
    END IF;
    seen := since;
    BEGIN
        PERFORM set_config('lock_timeout', '50ms', true);
        PERFORM pg_advisory_xact_lock_shared(folding);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
END
$$;

-- Every ready lane is somebody else's just now. Waits for the first of them, a moment, so that the next try is worth it: a node
-- that only tried again would take the processor from the one that it waits for. Nothing but the node's own row is locked then.
CREATE FUNCTION :schema.await_lane(claim_group text, from_pass bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('lock_timeout', '50ms', true);
    PERFORM 1 FROM :schema.lanes l WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass
    ORDER BY l.pass, l.id LIMIT 1 FOR SHARE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;

-- Up to `most` items: first what dead nodes left, then the heads of the ready lanes in stride order, never more of a workspace
-- than it has free slots. The items come in the order in which they are to be started; the last row has no id and tells about
-- the claim as a whole.
--   since                  what of lane_wakeups this node has folded (freshen_lanes)
--   from_pass, first_pass  no lane below it was ready at the last look
-- The stride order of turns: turn k of a lane stands at pass + k * stride, and the smallest go first (queue/fair_share.c). The
-- turns of a lane beyond `depth` cannot be among them, so that many lanes with many slots are not multiplied out.
CREATE FUNCTION :schema.claim(claimer bigint, claim_group text, most integer, since xid8, from_pass bigint)
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
    work record;
    own_group record;
    passed_over boolean := false;
    ready record;
    lane_ids bigint[] := '{}';
    lane_places tid[];
    workspace_places tid[];
    names text[];
    passes bigint[];
    strides integer[];
    runnables bigint[];
    head_ranks bigint[];
    frees integer[];
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
            SELECT * INTO ready FROM :schema.lock_ready_lanes(claim_group, from_pass, most - taken);
            lane_ids := ready.lane_ids;
            first_pass := ready.first_pass;
            passed_over := ready.left_over;
        END IF;
        IF cardinality(lane_ids) > 0 THEN
            next_fence := coalesce(next_fence, nextval(':schema.fences'));
            -- The locked version of a workspace, after whatever was waited for, each beside its lane. From here on lanes and
            -- workspaces stand still, and are found by their places.
            SELECT array_agg(o.lane_id), array_agg(o.lane_place), array_agg(o.place), array_agg(o.name), array_agg(o.pass),
                   array_agg(720720 / o.weight), array_agg(o.runnable), array_agg(o.head_rank), array_agg(o.free)
            INTO lane_ids, lane_places, workspace_places, names, passes, strides, runnables, head_ranks, frees
            FROM (SELECT u.lane_id, u.lane_place, u.pass, u.runnable, u.head_rank, w.ctid AS place, w.name, w.weight,
                         CASE WHEN w.paused THEN 0 ELSE w.slots_max - w.slots_used END AS free
                  FROM unnest(ready.lane_ids, ready.lane_places, ready.workspace_ids, ready.passes, ready.runnables,
                              ready.head_ranks) u (lane_id, lane_place, workspace_id, pass, runnable, head_rank)
                  JOIN :schema.workspaces w ON w.id = u.workspace_id
                  ORDER BY w.id FOR NO KEY UPDATE OF w) o;
            RETURN QUERY
            WITH offer AS MATERIALIZED (
                SELECT u.*, greatest(least(u.free, u.runnable, most - taken), 0)::integer AS room
                FROM unnest(lane_ids, lane_places, workspace_places, names, passes, strides, runnables, head_ranks, frees)
                     u (lane_id, lane_place, workspace_place, name, pass, stride, runnable, head_rank, free)
            ), depth AS MATERIALIZED (
                SELECT max(o.pass + least(o.room, d.turns) * o.stride) AS last_pass
                FROM offer o, (SELECT CASE WHEN sum(least(e.room, 1)) >= most - taken THEN 1
                                           WHEN sum(least(e.room, 8)) >= most - taken THEN 8
                                           WHEN sum(least(e.room, 64)) >= most - taken THEN 64 ELSE most END AS turns
                               FROM offer e) d
                WHERE o.room > 0
            ), dealt AS MATERIALIZED (
                SELECT t.lane_id, t.lane_place, t.workspace_place, t.name, t.pass, t.stride, t.head_rank, t.free,
                       count(*)::integer AS turns
                FROM (SELECT o.* FROM offer o, depth d, generate_series(0, least(o.room - 1, (d.last_pass - o.pass) / o.stride)) k
                      ORDER BY o.pass + k * o.stride, o.lane_id LIMIT most - taken) t
                GROUP BY t.lane_id, t.lane_place, t.workspace_place, t.name, t.pass, t.stride, t.head_rank, t.free
            ), picked AS MATERIALIZED (
                -- Numbered after the LIMIT: a window over all of them would read one item ahead.
                SELECT h.place, d.lane_id, d.lane_place, d.workspace_place, d.name, d.stride, d.free, d.turns,
                       d.pass + h.k * d.stride AS turn
                FROM dealt d CROSS JOIN LATERAL (
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
                SELECT t.lane_id, t.lane_place, t.workspace_place, t.stride, t.free, t.turns, count(*)::integer AS items,
                       max(t.rank) AS last_rank, max(t.turn) AS last_turn
                FROM taken t GROUP BY t.lane_id, t.lane_place, t.workspace_place, t.stride, t.free, t.turns
            ), charged AS (
                -- What was found counts, not what was planned. A lane is closed when it ran dry or its workspace is full.
                UPDATE :schema.lanes l
                SET runnable = l.runnable - s.items, pass = l.pass + s.items * s.stride,
                    head_rank = CASE WHEN s.items = s.turns THEN greatest(l.head_rank, s.last_rank) ELSE -9223372036854775808 END,
                    ready = s.items = s.turns AND l.runnable > s.items AND s.free > s.items
                FROM served s WHERE l.ctid = s.lane_place
            ), closed AS (
                UPDATE :schema.lanes l SET ready = false, head_rank = -9223372036854775808
                FROM offer o
                WHERE l.ctid = o.lane_place AND (o.room = 0 OR (o.lane_id IN (SELECT d.lane_id FROM dealt d)) IS TRUE)
                  AND (o.lane_id IN (SELECT s.lane_id FROM served s)) IS NOT TRUE
            ), filled AS (
                -- One lane per workspace, since a claim is of one group.
                UPDATE :schema.workspaces w SET slots_used = w.slots_used + s.items FROM served s WHERE w.ctid = s.workspace_place
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
        END IF;
    END IF;
    IF taken = 0 AND passed_over THEN
        PERFORM :schema.await_lane(claim_group, from_pass);
    END IF;
    id := NULL;
    claimed_at := now_us;
    lanes := cardinality(lane_ids);
    more := taken = most OR passed_over;
    RETURN NEXT;
END
$$;

-- --- record ---

-- Gives slots back and counts ends, once per workspace and set; the last lock that a transaction takes. A workspace that was
-- full has room now: its lanes are looked at again. They are read in a statement of its own, after the workspaces are locked: a
-- lane that a claim closed just before is seen, and one that is closed later was closed by who saw the room.
-- `states`: of each item that gave its slot back: what it is now, or ended as.
CREATE FUNCTION :schema.free_slots(freed integer[], states text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    reopened integer[];
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
    SELECT array_agg(c.id) INTO reopened FROM changed c WHERE c.reopens;
    IF reopened IS NOT NULL THEN
        INSERT INTO :schema.lane_wakeups (lane_id)
        SELECT l.id FROM unnest(reopened) r (id) CROSS JOIN :schema.executor_groups g
        JOIN :schema.lanes l ON l.id = :schema.lane_id(g.id, r.id);
    END IF;
END
$$;

-- What engines reported, a set. Each item is in it with at most one record that ends its claim; arrays are sorted by id, so
-- that rows are locked in one order everywhere. Returns the records that did not simply take effect, by their place in the
-- arrays, and a last row without a place that counts the freed slots.
--   kinds      0 dispatched, 1 retry, 2 deferred, 3 released, 4 refused, 5 step, 6 completed, 7 failed, 8 cancelled, 9 given
--              back (enum record_kind); -1: its outcome is that of another record of the set
--   delays     microseconds, of 1 and 2
--   was_started  of an end: its start was reported in the same set
-- Steps have arrays of their own; step_records names the record that must take effect for the step to be written. An exit_code
-- or due_in below 0 is none.
-- outcome: 'repeated' (on record already), 'stale_fence', 'not_found', 'illegal_state'.
CREATE FUNCTION :schema.record(recorder bigint, ids uuid[], fences bigint[], kinds integer[], delays bigint[],
                               was_started boolean[], codes text[], errors text[],
                               step_records integer[], steps text[], step_states text[], step_attempts integer[],
                               step_failures integer[], exit_codes integer[], due_ins bigint[], step_ends boolean[],
                               outputs bytea[], variables bytea[], step_codes text[], step_errors text[])
RETURNS TABLE (place integer, outcome text, slots_freed integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
            WHERE r.kind = 0 AND q.id = r.id AND q.fence = r.fence AND q.status = 'CLAIMED'
            RETURNING r.n
        )
        SELECT coalesce(array_agg(c.n::integer), '{}') INTO done FROM changed c;
    END IF;
    IF 5 = ANY (kinds) THEN
        -- Locked, so that no handover comes between the look and the commit: a new owner must find the step on record.
        held := ARRAY(SELECT r.n::integer FROM unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
                      JOIN :schema.workflow_execution_queue q ON q.id = r.id
                      WHERE r.kind = 5 AND q.fence = r.fence AND q.phase + 0 = 2 FOR SHARE OF q);
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
            WHERE r.kind IN (1, 2, 3) AND o.id = r.id AND q.id = r.id AND q.fence = r.fence AND q.status = 'CLAIMED'
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
            WHERE r.kind = 9 AND q.id = r.id AND q.fence = r.fence AND q.phase + 0 = 2
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
            WHERE r.kind IN (1, 2, 3, 4, 6, 7, 8) AND q.id = r.id AND q.fence = r.fence AND q.phase + 0 = 2
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
        LEFT JOIN :schema.workflow_execution_queue q ON q.id = r.id
        WHERE r.kind >= 0 AND (r.n IN (SELECT unnest(done))) IS NOT TRUE;
    END IF;
    place := NULL;
    outcome := NULL;
    slots_freed := cardinality(freed);
    RETURN NEXT;
END
$$;

-- --- the end of items that no engine reported ---

-- Moves rows that the caller has locked to the history. The caller gives slots back and corrects lanes.
CREATE FUNCTION :schema.move_to_history(ids uuid[], end_state text, code text, message text, now_us bigint)
RETURNS TABLE (id uuid, lane_id bigint, workspace_id integer, phase smallint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
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

-- --- nodes and recovery ---

-- Takes items away from whoever holds them: the fence grows, so his late words change nothing; the slot stays taken. One that
-- was taken over too often ends as poison. The caller has locked the rows.
CREATE FUNCTION :schema.hand_over(ids uuid[], why text, handovers_max integer, now_us bigint, OUT handed_over integer,
                                  OUT poisoned integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next_fence bigint := nextval(':schema.fences');
    lost uuid[];
    freed integer[];
BEGIN
    WITH before AS MATERIALIZED (
        SELECT q.id, q.node_id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids)
    ), taken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, handovers = q.handovers + 1, interruptions = q.interruptions + 1
        FROM before b WHERE q.id = b.id
        RETURNING q.id, b.node_id, q.handovers >= handovers_max AS poison
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason)
        SELECT t.id, now_us, CASE WHEN t.poison THEN 'poison' ELSE 'hand_over' END, t.node_id, next_fence, why FROM taken t
    )
    SELECT array_agg(t.id) FILTER (WHERE t.poison), count(*) FILTER (WHERE NOT t.poison), count(*) FILTER (WHERE t.poison)
    INTO lost, handed_over, poisoned FROM taken t;
    IF lost IS NOT NULL THEN
        SELECT array_agg(m.workspace_id) INTO freed
        FROM :schema.move_to_history(lost, 'FAILED', 'poison', 'its node died each time it ran; it is not tried again', now_us) m;
        PERFORM :schema.free_slots(freed, array_fill('FAILED'::text, ARRAY[cardinality(freed)]));
    END IF;
END
$$;

-- Declares nodes dead whose lease is over (and `gone`, whose processes were seen to be gone), and hands over what dead and
-- stopped nodes still hold, at most `most` items. Without a lock of its own: nodes and items that somebody else has locked are
-- left for the next call. A node is recovered when nothing of it is left.
--   group_name  NULL = all groups          stale_ids, stale_fences  claims that the safety net found (stale_claims below)
CREATE FUNCTION :schema.recover(group_name text, gone bigint[], stale_ids uuid[], stale_fences bigint[], handovers_max integer,
                                most integer, OUT handed_over integer, OUT poisoned integer, OUT nodes integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    dead bigint[];
    left_by bigint[];
    ids uuid[];
    stale record;
BEGIN
    -- FOR UPDATE waits for nobody, and no claim of such a node is under way (node_may_claim).
    dead := ARRAY(SELECT n.id FROM :schema.nodes n
                  WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL
                    AND (n.expires_at <= now_us OR n.id = ANY (gone)) AND (group_name IS NULL OR n.executor_group = group_name)
                  ORDER BY n.id FOR UPDATE SKIP LOCKED);
    UPDATE :schema.nodes n SET dead_at = now_us WHERE n.id = ANY (dead);
    nodes := cardinality(dead);
    left_by := ARRAY(SELECT n.id FROM :schema.nodes n
                     WHERE n.recovered_at IS NULL AND (n.dead_at IS NOT NULL OR n.stopped_at IS NOT NULL)
                       AND (group_name IS NULL OR n.executor_group = group_name)
                     ORDER BY n.id LIMIT 100);
    ids := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q
                 WHERE q.phase = 2 AND q.node_id = ANY (left_by) LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
    handed_over := 0;
    poisoned := 0;
    IF cardinality(ids) > 0 THEN
        SELECT h.handed_over, h.poisoned INTO handed_over, poisoned
        FROM :schema.hand_over(ids, 'its node is gone', handovers_max, now_us) h;
    END IF;
    UPDATE :schema.nodes n SET recovered_at = now_us
    WHERE n.id = ANY (left_by) AND n.recovered_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = n.id);
    more := cardinality(ids) = most OR cardinality(left_by) = 100
            OR EXISTS (SELECT 1 FROM :schema.nodes n WHERE n.id = ANY (left_by) AND n.recovered_at IS NULL);
    IF cardinality(stale_ids) > 0 THEN
        ids := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q JOIN unnest(stale_ids, stale_fences) r (id, fence) ON q.id = r.id
                     WHERE q.fence = r.fence AND q.status = 'CLAIMED' AND q.node_id > 0 FOR NO KEY UPDATE OF q SKIP LOCKED);
        IF cardinality(ids) > 0 THEN
            SELECT h.handed_over, h.poisoned INTO stale FROM :schema.hand_over(ids, 'claimed for too long', handovers_max, now_us) h;
            handed_over := handed_over + stale.handed_over;
            poisoned := poisoned + stale.poisoned;
        END IF;
    END IF;
END
$$;

-- A node leaves: what it holds waits for another one, which is not its fault. At most `most` items per call; returns how many.
-- The node is stopped, and recovered, by the call that finds nothing left.
CREATE FUNCTION :schema.stop_node(leaver bigint, is_graceful boolean, most integer) RETURNS integer
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

-- --- operators' acts ---

-- Locks what an operator's act is about: the lanes (made if need be), then the items, each in ascending order, waiting. Lanes of
-- all items, also of held ones: until the items are locked they may be put back.
CREATE FUNCTION :schema.lock_items(ids uuid[]) RETURNS TABLE (id uuid, phase smallint, lane_id bigint, workspace_id integer, rank bigint,
                                                              status text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    wanted bigint[] := ARRAY(SELECT DISTINCT q.lane_id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids));
BEGIN
    PERFORM :schema.make_lanes(wanted, true);
    PERFORM 1 FROM :schema.lanes l WHERE l.id = ANY (wanted) ORDER BY l.id FOR NO KEY UPDATE;
    RETURN QUERY
    SELECT q.id, q.phase, q.lane_id, q.workspace_id, q.rank, q.status FROM :schema.workflow_execution_queue q
    WHERE q.id = ANY (ids) ORDER BY q.id FOR NO KEY UPDATE;
END
$$;

-- Each answers one row per id: outcome 'changed' (a retry: by the new id), or 'refused' with what it is instead (a state,
-- 'gone'); a second retry: 'retried', with the id of the first.

-- Pending ones never start; running ones are passed to their engine.
CREATE FUNCTION :schema.cancel_items(ids uuid[], actor text, why text) RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    pending uuid[];
    held uuid[];
    lanes bigint[];
    runnables bigint[];
    waitings bigint[];
    cancelled_of integer[];
BEGIN
    SELECT array_agg(l.id) FILTER (WHERE l.phase <> 2), array_agg(l.id) FILTER (WHERE l.phase = 2) INTO pending, held
    FROM :schema.lock_items(ids) l;
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason, detail)
    SELECT u.id, now_us, 'cancel', actor, why, CASE WHEN u.id = ANY (held) THEN 'passed on to its engine' ELSE 'it had not started' END
    FROM unnest(pending || held) u (id);
    UPDATE :schema.workflow_execution_queue q SET cancel_at = now_us, cancel_sent = false
    WHERE q.id = ANY (held) AND q.cancel_at IS NULL;
    IF pending IS NOT NULL THEN
        WITH ended AS (
            SELECT m.lane_id, m.workspace_id, m.phase FROM :schema.move_to_history(pending, 'CANCELLED', 'cancelled', NULL, now_us) m
        ), sums AS (
            SELECT e.lane_id, -count(*) FILTER (WHERE e.phase = 0) AS runnable, -count(*) FILTER (WHERE e.phase = 1) AS waiting
            FROM ended e GROUP BY e.lane_id
        )
        SELECT array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.waiting), (SELECT array_agg(e.workspace_id) FROM ended e)
        INTO lanes, runnables, waitings, cancelled_of FROM sums s;
        PERFORM :schema.change_lanes(lanes, runnables, waitings, NULL);
        UPDATE :schema.workspaces w SET cancelled = w.cancelled + c.n
        FROM (SELECT u.id, count(*) AS n FROM unnest(cancelled_of) u (id) GROUP BY u.id ORDER BY u.id) c WHERE w.id = c.id;
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (pending || held) THEN 'changed' ELSE 'refused' END, coalesce(h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_executions h ON h.id = u.id;
END
$$;

-- A pending one starts now, whatever its run_at or backoff.
CREATE FUNCTION :schema.release_items(ids uuid[], actor text, why text) RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    waiting uuid[];
    lanes bigint[];
    counts bigint[];
    least_ranks bigint[];
BEGIN
    SELECT array_agg(l.id) INTO waiting FROM :schema.lock_items(ids) l WHERE l.phase = 1;
    IF waiting IS NOT NULL THEN
        WITH released AS (
            UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL WHERE q.id = ANY (waiting)
            RETURNING q.id, q.lane_id, q.rank
        ), event AS (
            INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason)
            SELECT r.id, now_us, 'release', actor, why FROM released r
        ), sums AS (
            SELECT r.lane_id, count(*) AS n, min(r.rank) AS least_rank FROM released r GROUP BY r.lane_id
        )
        SELECT array_agg(s.lane_id), array_agg(s.n), array_agg(s.least_rank) INTO lanes, counts, least_ranks FROM sums s;
        PERFORM :schema.change_lanes(lanes, counts, ARRAY(SELECT -c FROM unnest(counts) c), least_ranks);
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (waiting) THEN 'changed' ELSE 'refused' END, coalesce(q.status, h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id;
END
$$;

-- A new execution of what FAILED or was CANCELLED; the ended row is never rewritten. new_ids: one per id.
CREATE FUNCTION :schema.retry_items(ids uuid[], new_ids uuid[], actor text, why text) RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    retried uuid[];
BEGIN
    -- Two who retry the same one at once: the second sees what the first did.
    PERFORM 1 FROM :schema.workflow_executions h WHERE h.id = ANY (ids) ORDER BY h.id FOR NO KEY UPDATE;
    WITH copied AS (
        INSERT INTO :schema.workflow_execution_queue
            (id, lane_id, definition_id, rank, run_at, created_at, workspace_id, priority, phase, has_params, status, idempotency_key,
             retry_of)
        SELECT u.new_id, h.lane_id, h.definition_id, now_us - h.priority * 3600000000::bigint, now_us, now_us, h.workspace_id, h.priority,
               0, h.has_params, 'PENDING', h.idempotency_key, h.id
        FROM unnest(ids, new_ids) u (id, new_id) JOIN :schema.workflow_executions h ON h.id = u.id
        WHERE h.status <> 'COMPLETED'
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue r WHERE r.retry_of = h.id)
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions r WHERE r.retry_of = h.id)
        RETURNING id, lane_id, rank, has_params, retry_of
    ), params AS (
        INSERT INTO :schema.execution_params (id, params)
        SELECT c.id, p.params FROM copied c JOIN :schema.execution_params p ON p.id = c.retry_of WHERE c.has_params
    ), wake_up AS (
        INSERT INTO :schema.lane_wakeups (lane_id, runnable, least_rank)
        SELECT c.lane_id, count(*), min(c.rank) FROM copied c GROUP BY c.lane_id
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason, detail)
        SELECT c.retry_of, now_us, 'retry', actor, why, c.id::text FROM copied c
    )
    SELECT array_agg(c.retry_of) INTO retried FROM copied c;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (retried) THEN 'changed' WHEN r.id IS NOT NULL THEN 'retried' ELSE 'refused' END,
           coalesce(r.id::text, q.status, h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id
    LEFT JOIN LATERAL (SELECT x.id FROM :schema.workflow_execution_queue x WHERE x.retry_of = u.id
                       UNION ALL SELECT y.id FROM :schema.workflow_executions y WHERE y.retry_of = u.id LIMIT 1) r ON true;
END
$$;

-- Ended ones are removed with all that belongs to them.
CREATE FUNCTION :schema.purge_items(ids uuid[]) RETURNS TABLE (item uuid, outcome text, detail text)
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
    DELETE FROM :schema.workflow_execution_events e WHERE e.execution_id = ANY (gone);
    DELETE FROM :schema.idempotency_keys k USING unnest(gone, owners, keys) r (id, workspace_id, key)
    WHERE k.workspace_id = r.workspace_id AND k.key = r.key AND k.execution_id = r.id;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (gone) THEN 'changed' ELSE 'refused' END, coalesce(q.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id;
END
$$;
