-- A transaction that somebody keeps open makes the server keep every row version that dies meanwhile, and every index its entries.
-- What a claim costs must not grow with them. Two things made it grow the most; measured with 1,000 workspaces after 15,000
-- executions beside such a transaction: 3 times the processor's time per claim and record with both, 1.2 times without.
--
-- 1. What a node has seen of lane_wakeups is a snapshot, no longer the oldest transaction that was running: that one stands still while
-- anybody keeps a transaction open that has written, and then every look walked all wake-ups that had died since. A snapshot
-- says more: new is what belongs to a transaction at or above its xmax, or to one of those that were running then. Nothing else can
-- have been committed since.
--   `since` is a text, so that the functions stand beside those that take a transaction id, which nodes of the last version call:
-- '0' (nothing was seen) or a pg_snapshot. Whoever passes a snapshot has taken it on a connection that had no wake-ups of its own
-- uncommitted; a caller that has passes '0'.
--
-- 2. Each update of a lane made a new entry for its id, and every look-up by the id and every check that it is unique walked those of
-- all dead versions. Now the entries of a lane are sorted, the highest pass first: a pass only grows, so the first entry is that of
-- the living version. They are not unique by themselves: make_lanes() sees to it that a lane has one row.
--   Workspaces are found by a range of one id that is read backwards: entries of the same id lie in the order of their places, and
-- new versions are put behind old ones. (By an equality the planner would not care for the direction.)
--   Which version is read does not depend on any of this: a snapshot shows one.

-- What was seen, as far as this server can have shown it: one whose transactions have not come that far is another one, or has
-- forgotten its last, and everything is looked at.
CREATE FUNCTION :schema.seen_snapshot(since text) RETURNS pg_snapshot
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF since <> '0' AND pg_snapshot_xmax(since::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot()) THEN
        RETURN since::pg_snapshot;
    END IF;
    RETURN '1:1:';
END
$$;

-- As it is told to a node. With very many open transactions the oldest of them stands for all, as before.
CREATE FUNCTION :schema.snapshot_text(snapshot pg_snapshot) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN (SELECT count(*) FROM pg_snapshot_xip(snapshot)) <= 48 THEN snapshot::text
                ELSE pg_snapshot_xmin(snapshot) || ':' || pg_snapshot_xmin(snapshot) || ':' END
$$;

-- --- lanes ---

-- Those of the wanted lanes that are there and that nobody else has locked, locked in the order of their ids.
CREATE FUNCTION :schema.lock_lanes(wanted bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN ARRAY(
        SELECT l.id
        FROM (SELECT f.place
              FROM unnest(wanted) u (lane_id)
              CROSS JOIN LATERAL (SELECT n.ctid AS place FROM :schema.lanes n WHERE n.id = u.lane_id
                                  ORDER BY n.id, n.pass DESC LIMIT 1) f
              ORDER BY u.lane_id) p
        JOIN :schema.lanes l ON l.ctid = p.place FOR NO KEY UPDATE OF l SKIP LOCKED);
END
$$;

-- As before; lanes and workspaces are found newest first.
CREATE OR REPLACE FUNCTION :schema.change_lanes(lane_ids bigint[], runnables bigint[], waitings bigint[], least_ranks bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE :schema.lanes l
    SET runnable = l.runnable + c.runnable, waiting = l.waiting + c.waiting, head_rank = least(l.head_rank, c.least_rank),
        ready = l.ready OR (l.runnable + c.runnable > 0 AND c.has_room),
        pass = CASE WHEN NOT l.ready AND l.runnable + c.runnable > 0 AND c.has_room THEN greatest(l.pass, g.pass) ELSE l.pass END
    FROM (SELECT u.*, n.place, w.has_room
          FROM unnest(lane_ids, runnables, waitings, least_ranks) u (lane_id, runnable, waiting, least_rank)
          CROSS JOIN LATERAL (SELECT o.ctid AS place, o.workspace_id FROM :schema.lanes o WHERE o.id = u.lane_id
                              ORDER BY o.id, o.pass DESC LIMIT 1) n
          CROSS JOIN LATERAL (SELECT NOT o.paused AND o.slots_used < o.slots_max AS has_room FROM :schema.workspaces o
                              WHERE o.id BETWEEN n.workspace_id AND n.workspace_id ORDER BY o.id DESC LIMIT 1) w) c,
         :schema.executor_groups g
    WHERE l.ctid = c.place AND g.name = l.executor_group
      AND (c.runnable <> 0 OR c.waiting <> 0 OR NOT l.ready AND l.runnable > 0 AND c.has_room);
END
$$;

-- As before; without a unique index it looks again when it has the advisory lock: who held it before has committed his row. A lane is
-- looked up by a sub-select: a join to a table of lanes that was small when the plan was made went through all of them for each
-- wanted one.
CREATE OR REPLACE FUNCTION :schema.make_lanes(lane_ids bigint[], waits boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    missing bigint[] := ARRAY(SELECT u.lane_id FROM unnest(lane_ids) u (lane_id)
                              WHERE (SELECT true FROM :schema.lanes l WHERE l.id = u.lane_id ORDER BY l.id, l.pass DESC LIMIT 1) IS NULL
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
          AND NOT EXISTS (SELECT 1 FROM :schema.lanes l WHERE l.id = lane_id);
    END LOOP;
END
$$;

-- --- what happened to them ---

-- Folds what was committed since the last look into lanes. A lane that somebody else has locked is left for the next look. The
-- rows of a lane are deleted only by who holds the lane, so nothing is counted twice; and they are found by their place
-- (ctid), which is not given to another row while this transaction runs.
CREATE FUNCTION :schema.fold_wakeups(since text, most integer, OUT seen text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    old constant pg_snapshot := :schema.seen_snapshot(since);
    present pg_snapshot;
    places tid[];
    wanted bigint[];
    locked bigint[];
    folded bigint[];
    runnables bigint[];
    waitings bigint[];
    least_ranks bigint[];
BEGIN
    SELECT pg_current_snapshot(), array_agg(r.place), array_agg(DISTINCT r.lane_id)
    INTO present, places, wanted
    FROM (SELECT n.place, n.lane_id
          FROM (SELECT o.place, o.lane_id
                FROM pg_snapshot_xip(old) x (xid)
                CROSS JOIN LATERAL (SELECT u.ctid AS place, u.lane_id FROM :schema.lane_wakeups u WHERE u.xid = x.xid
                                    ORDER BY u.xid, u.n LIMIT most) o
                UNION ALL
                (SELECT u.ctid AS place, u.lane_id FROM :schema.lane_wakeups u WHERE u.xid >= pg_snapshot_xmax(old)
                 ORDER BY u.xid, u.n LIMIT most)) n
          LIMIT most) r;
    IF places IS NULL THEN
        seen := :schema.snapshot_text(present);
        left_over := false;
        RETURN;
    END IF;
    PERFORM :schema.make_lanes(wanted, false);
    locked := :schema.lock_lanes(wanted);
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
    seen := :schema.snapshot_text(CASE WHEN left_over THEN old ELSE present END);
END
$$;

-- Before a claim: as the function of the same name that takes a transaction id.
CREATE FUNCTION :schema.freshen_lanes(since text, most integer, OUT seen text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    old constant pg_snapshot := :schema.seen_snapshot(since);
    now_us bigint := :schema.store_time();
    folding constant bigint := hashtextextended(:'schema' || '.freshen_lanes', 0);
BEGIN
    SELECT :schema.snapshot_text(pg_current_snapshot()),
           EXISTS (SELECT 1 FROM :schema.lane_wakeups u WHERE u.xid >= pg_snapshot_xmax(old))
           OR EXISTS (SELECT 1 FROM pg_snapshot_xip(old) x (xid)
                      WHERE EXISTS (SELECT 1 FROM :schema.lane_wakeups u WHERE u.xid = x.xid))
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
    seen := :schema.snapshot_text(old);
    BEGIN
        PERFORM set_config('lock_timeout', '50ms', true);
        PERFORM pg_advisory_xact_lock_shared(folding);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
END
$$;

-- As the function of the same name that takes a transaction id.
CREATE FUNCTION :schema.look(looker bigint, look_group text, since text, from_pass bigint, OUT ready boolean, OUT handed_over boolean,
                             OUT due_at bigint, OUT requests boolean, OUT runs boolean, OUT paused boolean, OUT now_us bigint)
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
    FROM :schema.executor_groups g WHERE g.name = look_group;
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

-- For claim(), and for nodes of the last version: everything from `since` on is new. A claim passes the xmax of what was seen: what
-- belongs to transactions that were running then was folded just before it.
CREATE OR REPLACE FUNCTION :schema.look(looker bigint, look_group text, since xid8, from_pass bigint, OUT ready boolean,
                                        OUT handed_over boolean, OUT due_at bigint, OUT requests boolean, OUT runs boolean,
                                        OUT paused boolean, OUT now_us bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT * INTO ready, handed_over, due_at, requests, runs, paused, now_us
    FROM :schema.look(looker, look_group, CASE WHEN since = '0'::xid8 THEN '0' ELSE since::text || ':' || since::text || ':' END,
                      from_pass);
END
$$;

-- Last, because it holds up everybody until the commit.
CREATE INDEX lanes_newest ON :schema.lanes (id, pass DESC);
ALTER TABLE :schema.lanes DROP CONSTRAINT lanes_pkey;
