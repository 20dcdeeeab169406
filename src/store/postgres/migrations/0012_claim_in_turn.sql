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
-- transaction ends. Of the workspace that is not so: it is not locked, and how many slots are free is a guess.
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
