-- Claims of a group take turns. Two at once go over each other's lanes, share what is ready between them and wait for the same
-- workspaces: smaller sets, and more pages for each item (measured with eight nodes on two processors: 127 pages instead of 102).
--
-- Nodes of the last version wait as well, because the wait is inside of a function that their claim calls.

-- Waits for its turn, but not for long: a claim that is held up (its node stopped while its answer was on the way) holds up nobody
-- for longer than this, and where so many wait that each would wait longer, some claim at the same time.
CREATE FUNCTION :schema.await_turn(claim_group text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '100ms' AS $$
DECLARE
    turn constant bigint := hashtextextended(:'schema' || '.claim ' || claim_group, 0);
BEGIN
    IF NOT pg_try_advisory_xact_lock(turn) THEN
        PERFORM pg_advisory_xact_lock(turn);
    END IF;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;

-- As before, when it is this claim's turn. The ready lanes that can fill the claim, in stride order, locked; a lane that another claim
-- holds is passed over. What is told of a lane is what its locked version says, so it stands at its place, unchanged, until this
-- transaction ends. Of the workspace that is not so: it is not locked, and how many slots are free is a guess. It is found newest first
-- (migration 0010).
--   most < 64    as many lanes as items: every lane gets its turn in order
--   else         as many as fill the claim with 8 turns each: a lane's rows lie together, so that a large claim touches a
--                fraction of the pages. The lanes left out stand first in the next claim.
CREATE OR REPLACE FUNCTION :schema.choose_lanes(claim_group text, from_pass bigint, most integer, OUT lane_ids bigint[],
                                                OUT lane_places tid[], OUT workspace_ids integer[], OUT names text[],
                                                OUT passes bigint[], OUT strides integer[], OUT runnables bigint[],
                                                OUT head_ranks bigint[], OUT frees integer[], OUT first_pass bigint,
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
    PERFORM :schema.await_turn(claim_group);
    lane_ids := '{}';
    left_over := true;
    FOR lane IN
        SELECT l.id, l.ctid AS place, l.workspace_id, w.name, l.pass, 720720 / w.weight AS stride, l.runnable, l.head_rank,
               CASE WHEN w.paused THEN 0 ELSE greatest(w.slots_max - w.slots_used, 0) END AS free
        FROM :schema.lanes l
        CROSS JOIN LATERAL (SELECT o.name, o.weight, o.paused, o.slots_max, o.slots_used FROM :schema.workspaces o
                            WHERE o.id BETWEEN l.workspace_id AND l.workspace_id ORDER BY o.id DESC LIMIT 1) w
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

-- As before, but lanes are found newest first (migration 0010): beside an open transaction the three look-ups of a lane by its id were
-- the most of what a record read. Gives slots back and counts ends, once per workspace and set. A workspace that was full has room
-- now, so its lanes are opened, at the place in the order where their group stands.
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
    closed := ARRAY(SELECT u.lane_id FROM unnest(reopened) u (lane_id)
                    WHERE (SELECT NOT o.ready FROM :schema.lanes o WHERE o.id = u.lane_id ORDER BY o.id, o.pass DESC LIMIT 1));
    IF cardinality(closed) = 0 THEN
        RETURN;
    END IF;
    locked := :schema.lock_lanes(closed);
    UPDATE :schema.lanes l SET ready = true, pass = greatest(l.pass, g.pass)
    FROM (SELECT u.lane_id, n.place FROM unnest(locked) u (lane_id)
          CROSS JOIN LATERAL (SELECT o.ctid AS place FROM :schema.lanes o WHERE o.id = u.lane_id
                              ORDER BY o.id, o.pass DESC LIMIT 1) n) u,
         :schema.executor_groups g
    WHERE l.ctid = u.place AND NOT l.ready AND l.runnable > 0 AND g.id = (u.lane_id >> 32)::integer;
    IF cardinality(locked) < cardinality(closed) THEN
        INSERT INTO :schema.lane_wakeups (lane_id)
        SELECT u.lane_id FROM unnest(closed) u (lane_id) WHERE (u.lane_id IN (SELECT unnest(locked))) IS NOT TRUE;
    END IF;
END
$$;
