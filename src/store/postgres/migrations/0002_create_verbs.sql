-- The verbs that nodes call hundreds of times a second, each a function: one round trip, one transaction that the server ends
-- by itself. A node that is stopped in the middle of a verb so never holds a lock: between two statements of an open
-- transaction it would, for as long as it sleeps.
--
-- In a VOLATILE function under READ COMMITTED each statement has a snapshot of its own. That is used on purpose: rows are
-- locked in one statement and looked at in the next, which sees what the lock was waited for (design 3.4).
--
-- SET enable_...: the plans are fixed. Every join is a loop over a small array or set that looks rows up by an index; statistics
-- that are out of date by a hundred thousand rows (they are, all the time) must not turn one of them into a scan of a table.
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

-- A lane's row is made by who first has to lock it, in a short transaction. It begins ready: a claim will look and decide. Sorted:
-- two who make the same lanes wait for each other in one direction only.
CREATE FUNCTION :schema.make_lanes(lane_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO :schema.lanes (id, executor_group, workspace_id, ready, pass)
    SELECT c.lane_id, g.name, (c.lane_id & 4294967295)::integer, true, g.pass
    FROM (SELECT DISTINCT u.lane_id FROM unnest(lane_ids) u (lane_id)
          WHERE NOT EXISTS (SELECT 1 FROM :schema.lanes l WHERE l.id = u.lane_id) ORDER BY u.lane_id) c
    JOIN :schema.executor_groups g ON g.id = (c.lane_id >> 32)::integer
    ON CONFLICT DO NOTHING;
END
$$;

-- Folds what was committed since the last look into lanes. A lane that somebody else has locked is left for the next look. The
-- rows of a lane are deleted only by who holds the lane, so nothing is counted twice; and they are found by their place
-- (ctid), which is not given to another row while this transaction runs.
-- `since`: no row with a lower xid is unfolded. `seen` is that bound for the next look: the oldest transaction that was running.
CREATE FUNCTION :schema.fold_wakeups(since xid8, most integer, OUT seen xid8, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
    SELECT pg_snapshot_xmin(pg_current_snapshot()), array_agg(r.place), array_agg(DISTINCT r.lane_id)
    INTO horizon, places, wanted
    FROM (SELECT u.ctid AS place, u.lane_id FROM :schema.lane_wakeups u WHERE u.xid >= since ORDER BY u.xid, u.n LIMIT most) r;
    IF places IS NULL THEN
        seen := horizon;
        left_over := false;
        RETURN;
    END IF;
    PERFORM :schema.make_lanes(wanted);
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
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
    PERFORM :schema.make_lanes(locked);
    locked := ARRAY(SELECT l.id FROM :schema.lanes l WHERE l.id = ANY (locked) ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED);
    WITH moved AS (
        UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL
        WHERE q.id = ANY (due) AND q.phase = 1 AND q.due_at <= now_us AND q.lane_id = ANY (locked)
        RETURNING q.lane_id, q.rank
    ), sums AS (
        SELECT m.lane_id, count(*) AS runnable, min(m.rank) AS least_rank FROM moved m GROUP BY m.lane_id
    )
    SELECT array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.least_rank) INTO promoted, counts, least_ranks FROM sums s;
    PERFORM :schema.change_lanes(promoted, counts, ARRAY(SELECT -c FROM unnest(counts) c), least_ranks);
END
$$;

-- --- claim ---

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
CREATE FUNCTION :schema.lock_ready_lanes(claim_group text, from_pass bigint, most integer, OUT lane_ids bigint[],
                                         OUT workspace_ids integer[], OUT first_pass bigint, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lane record;
    spread constant integer := CASE WHEN most < 64 THEN 1 ELSE 8 END;
    turns integer := 0;
    looked integer := 0;
    looked_most constant integer := 4 * most + 100;
BEGIN
    lane_ids := '{}';
    workspace_ids := '{}';
    left_over := true;
    FOR lane IN
        SELECT l.id, l.workspace_id, l.pass, least(l.runnable, spread, CASE WHEN w.paused THEN 0 ELSE w.slots_max - w.slots_used END) AS room
        FROM :schema.lanes l JOIN :schema.workspaces w ON w.id = l.workspace_id
        WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass
        ORDER BY l.pass, l.id FOR NO KEY UPDATE OF l SKIP LOCKED
    LOOP
        first_pass := coalesce(first_pass, lane.pass);
        lane_ids := lane_ids || lane.id;
        workspace_ids := workspace_ids || lane.workspace_id;
        turns := turns + greatest(lane.room, 0);
        looked := looked + 1;
        IF turns >= most OR looked >= looked_most THEN
            RETURN;
        END IF;
    END LOOP;
    left_over := looked < (SELECT count(*) FROM :schema.lanes l
                           WHERE l.executor_group = claim_group AND l.ready AND l.pass >= from_pass);
END
$$;

-- Up to `most` items: first what dead nodes left, then the heads of the ready lanes in stride order, never more of a workspace
-- than it has free slots. The items come in the order in which they are to be started; the last row has no id and tells about
-- the claim as a whole.
--   since, seen            what of lane_wakeups this node has folded: 0 the first time, then what the last claim returned
--   from_pass, first_pass  no lane below it was ready at the last look
-- The stride order of turns: turn k of a lane stands at pass + k * stride, and the smallest go first (queue/fair_share.c). The
-- turns of a lane beyond `depth` cannot be among them, so that many lanes with many slots are not multiplied out.
CREATE FUNCTION :schema.claim(claimer bigint, claim_group text, most integer, since xid8, from_pass bigint)
RETURNS TABLE (id uuid, fence bigint, workspace text, workflow text, version integer, definition_id bigint, params bytea,
               attempts integer, interruptions integer, handed_over boolean, cancel_requested boolean, created_at bigint,
               run_at bigint, dispatched_at bigint, claimed_at bigint, lanes integer, more boolean, seen xid8, first_pass bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    own_group record;
    unfolded boolean := false;
    passed_over boolean := false;
    lane_ids bigint[] := '{}';
    workspace_ids integer[];
    next_fence bigint;
    taken integer := 0;
    part integer;
BEGIN
    SELECT g.id, g.pass, g.paused OR s.queue_paused AS paused INTO own_group
    FROM :schema.executor_groups g, :schema.store_state s WHERE g.name = claim_group AND s.id = 1;
    IF own_group.id IS NOT NULL AND :schema.node_may_claim(claimer) THEN
        SELECT f.seen, f.left_over INTO seen, unfolded FROM :schema.fold_wakeups(since, 2000) f;
        PERFORM :schema.promote_due(now_us, 1000);
        -- Running work is taken over also while the queue is paused: it is no new claim.
        IF EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = 0
                   AND q.lane_id >= own_group.id::bigint << 32 AND q.lane_id < (own_group.id::bigint + 1) << 32) THEN
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
                   t.cancel_at IS NOT NULL, t.created_at, t.run_at, t.dispatched_at, now_us, NULL::integer, NULL::boolean,
                   NULL::xid8, NULL::bigint
            FROM taken t JOIN :schema.workspaces w ON w.id = t.workspace_id
            LEFT JOIN :schema.workflow_definitions d ON d.id = t.definition_id
            LEFT JOIN :schema.execution_params p ON t.has_params AND p.id = t.id;
            GET DIAGNOSTICS taken = ROW_COUNT;
        END IF;
        IF taken < most AND NOT own_group.paused THEN
            SELECT r.lane_ids, r.workspace_ids, r.first_pass, r.left_over INTO lane_ids, workspace_ids, first_pass, passed_over
            FROM :schema.lock_ready_lanes(claim_group, from_pass, most - taken) r;
        END IF;
        IF cardinality(lane_ids) > 0 THEN
            next_fence := coalesce(next_fence, nextval(':schema.fences'));
            PERFORM 1 FROM :schema.workspaces w WHERE w.id = ANY (workspace_ids) ORDER BY w.id FOR NO KEY UPDATE;
            RETURN QUERY
            WITH offer AS MATERIALIZED (
                SELECT l.id AS lane_id, l.workspace_id, l.pass, l.head_rank, l.runnable, w.name, 720720 / w.weight AS stride,
                       CASE WHEN w.paused THEN 0 ELSE greatest(w.slots_max - w.slots_used, 0) END AS free
                FROM unnest(lane_ids) u (lane_id) JOIN :schema.lanes l ON l.id = u.lane_id
                JOIN :schema.workspaces w ON w.id = l.workspace_id
            ), room AS MATERIALIZED (
                SELECT o.lane_id, o.pass, o.stride, o.head_rank, greatest(least(o.free, o.runnable, most - taken), 0)::integer AS room
                FROM offer o
            ), depth AS MATERIALIZED (
                SELECT max(r.pass + least(r.room, d.turns) * r.stride) AS last_pass
                FROM room r, (SELECT CASE WHEN sum(least(s.room, 1)) >= most - taken THEN 1
                                          WHEN sum(least(s.room, 8)) >= most - taken THEN 8
                                          WHEN sum(least(s.room, 64)) >= most - taken THEN 64 ELSE most END AS turns
                              FROM room s) d
                WHERE r.room > 0
            ), dealt AS MATERIALIZED (
                SELECT t.lane_id, count(*)::integer AS turns
                FROM (SELECT r.lane_id FROM room r, depth, generate_series(0, least(r.room - 1, (depth.last_pass - r.pass) / r.stride)) k
                      ORDER BY r.pass + k * r.stride, r.lane_id LIMIT most - taken) t
                GROUP BY t.lane_id
            ), picked AS MATERIALIZED (
                SELECT h.id, r.lane_id, r.pass + h.k * r.stride AS turn
                FROM dealt t JOIN room r ON r.lane_id = t.lane_id CROSS JOIN LATERAL (
                    SELECT q.id, row_number() OVER (ORDER BY q.rank, q.id) - 1 AS k FROM :schema.workflow_execution_queue q
                    WHERE q.lane_id = r.lane_id AND q.phase = 0 AND q.rank >= r.head_rank
                    ORDER BY q.rank, q.id LIMIT t.turns) h
            ), taken AS (
                UPDATE :schema.workflow_execution_queue q
                SET status = 'CLAIMED', phase = 2, node_id = claimer, fence = next_fence, claimed_at = now_us
                FROM picked p WHERE q.id = p.id AND q.phase = 0
                RETURNING q.id, q.definition_id, q.attempts, q.interruptions, q.cancel_at, q.created_at, q.run_at, q.dispatched_at,
                          q.has_params, q.workspace_id, q.rank, p.lane_id, p.turn
            ), served AS (
                SELECT t.lane_id, count(*)::integer AS items, max(t.rank) AS last_rank, max(t.turn) AS last_turn
                FROM taken t GROUP BY t.lane_id
            ), charged AS (
                -- What was found counts, not what was planned. A lane is closed when it ran dry or its workspace is full.
                UPDATE :schema.lanes l
                SET runnable = l.runnable - coalesce(s.items, 0), pass = l.pass + coalesce(s.items, 0) * o.stride,
                    head_rank = CASE WHEN coalesce(s.items, 0) < t.turns THEN -9223372036854775808
                                     ELSE greatest(l.head_rank, s.last_rank) END,
                    ready = coalesce(s.items, 0) = coalesce(t.turns, 0) AND l.runnable > coalesce(s.items, 0)
                            AND o.free > coalesce(s.items, 0)
                FROM offer o LEFT JOIN served s ON s.lane_id = o.lane_id LEFT JOIN dealt t ON t.lane_id = o.lane_id
                WHERE l.id = o.lane_id AND (s.items > 0 OR t.turns > 0 OR o.free = 0 OR l.runnable <= 0)
            ), filled AS (
                UPDATE :schema.workspaces w SET slots_used = w.slots_used + s.items
                FROM served s JOIN offer o ON o.lane_id = s.lane_id WHERE w.id = o.workspace_id
            ), advanced AS (
                -- The group stands where its last turn began. Another claim that is just moving it is not waited for.
                UPDATE :schema.executor_groups g SET pass = s.last_turn
                FROM (SELECT max(v.last_turn) AS last_turn FROM served v) s
                WHERE s.last_turn > own_group.pass AND g.id = ANY (ARRAY(
                    SELECT e.id FROM :schema.executor_groups e WHERE e.id = own_group.id FOR NO KEY UPDATE SKIP LOCKED))
                  AND s.last_turn > g.pass
            )
            SELECT t.id, next_fence, o.name, d.name, d.version, t.definition_id, p.params, t.attempts, t.interruptions, false,
                   t.cancel_at IS NOT NULL, t.created_at, t.run_at, t.dispatched_at, now_us, NULL::integer, NULL::boolean,
                   NULL::xid8, NULL::bigint
            FROM taken t JOIN offer o ON o.lane_id = t.lane_id
            LEFT JOIN :schema.workflow_definitions d ON d.id = t.definition_id
            LEFT JOIN :schema.execution_params p ON t.has_params AND p.id = t.id
            ORDER BY t.turn, t.id;
            GET DIAGNOSTICS part = ROW_COUNT;
            taken := taken + part;
        END IF;
    END IF;
    id := NULL;
    claimed_at := now_us;
    lanes := cardinality(lane_ids);
    more := taken = most OR unfolded OR passed_over;
    seen := coalesce(seen, since);
    RETURN NEXT;
END
$$;
