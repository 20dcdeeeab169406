-- A slot that becomes free is told to those who wait for it and do not hear of it otherwise: nodes of another executor group, where
-- the workspace has lanes in several, and the other nodes of the group, while some node claims nothing, since that may be the one that
-- gave the slot back. They waited for their next poll. Where there is one group and every node claims, nobody is told: who gives a slot
-- back looks for work at once, and each notice costs its commit.

-- As before, and with that; and workspaces and groups are found newest first (0022). Gives slots back and counts ends, once per workspace
-- and set. A workspace that was full has room now, so its lanes are opened, at the place in the order where their group stands.
-- Lanes are locked after workspaces here, against the order that everybody else keeps. That is safe because nobody is waited for:
-- a lane that somebody else holds gets a wake-up instead, and after this the transaction takes no lock that it would wait for.
-- Lanes are looked at after the workspaces are ours: one that was closed before that is seen, and one that is ready then stays so,
-- because who closes a lane for want of room has its workspace. What a lane counts is looked at when it is locked.
-- Who changes a workspace between the look for its place and the update is waited for; where the server then passes it over (0022), it
-- is locked, and the second try finds it.
-- `states`: of each item that gave its slot back: what it is now, or ended as.
CREATE OR REPLACE FUNCTION :schema.free_slots(freed integer[], states text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_nestloop = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    done integer[] := '{}';
    reopened integer[] := '{}';
    part record;
    group_ids integer[];
    stands_aside boolean;
    closed bigint[];
    locked bigint[];
BEGIN
    FOR try IN 1 .. 2 LOOP
        WITH ends AS MATERIALIZED (
            SELECT u.id, count(*)::integer AS slots, count(*) FILTER (WHERE u.state = 'COMPLETED') AS completed,
                   count(*) FILTER (WHERE u.state = 'FAILED') AS failed, count(*) FILTER (WHERE u.state = 'CANCELLED') AS cancelled
            FROM unnest(freed, states) u (id, state) WHERE u.id <> ALL (done) GROUP BY u.id ORDER BY u.id
        ), changed AS (
            UPDATE :schema.workspaces w
            SET slots_used = w.slots_used - c.slots, completed = w.completed + c.completed, failed = w.failed + c.failed,
                cancelled = w.cancelled + c.cancelled
            FROM (SELECT e.*, n.place FROM ends e
                  CROSS JOIN LATERAL (SELECT o.ctid AS place FROM :schema.workspaces o WHERE o.id BETWEEN e.id AND e.id
                                      ORDER BY o.id DESC LIMIT 1) n) c
            WHERE w.ctid = c.place
            RETURNING w.id, w.slots_used + c.slots >= w.slots_max AND w.slots_used < w.slots_max AND NOT w.paused AS reopens
        )
        SELECT array_agg(c.id) AS ids, array_agg(c.id) FILTER (WHERE c.reopens) AS reopened, (SELECT count(*) FROM ends) AS wanted
        INTO part FROM changed c;
        reopened := reopened || part.reopened;
        EXIT WHEN cardinality(part.ids) = part.wanted;
        done := done || part.ids;
    END LOOP;
    IF cardinality(reopened) = 0 THEN
        RETURN;
    END IF;
    group_ids := :schema.group_ids();
    stands_aside := EXISTS (SELECT 1 FROM :schema.nodes n WHERE n.recovered_at IS NULL AND (n.wish <> 'run' OR n.aside IS NOT NULL));
    IF stands_aside OR cardinality(group_ids) > 1 THEN
        PERFORM :schema.notify_work(g.name)
        FROM :schema.executor_groups g
        WHERE g.id = ANY (ARRAY(
            SELECT f.group_id
            FROM (SELECT u.g, o.runnable, count(*) OVER (PARTITION BY u.w) AS lanes
                  FROM (SELECT g, w FROM unnest(reopened) w CROSS JOIN unnest(group_ids) g) u
                  CROSS JOIN LATERAL (SELECT l.runnable FROM :schema.lanes l WHERE l.id = :schema.lane_id(u.g, u.w)
                                      ORDER BY l.id, l.pass DESC LIMIT 1) o) f (group_id, runnable, lanes)
            WHERE f.runnable > 0 AND (stands_aside OR f.lanes > 1)));
    END IF;
    closed := ARRAY(SELECT u.lane_id
                    FROM (SELECT :schema.lane_id(g, w) FROM unnest(reopened) w CROSS JOIN unnest(group_ids) g) u (lane_id)
                    WHERE (SELECT NOT o.ready FROM :schema.lanes o WHERE o.id = u.lane_id ORDER BY o.id, o.pass DESC LIMIT 1));
    IF cardinality(closed) = 0 THEN
        RETURN;
    END IF;
    locked := :schema.lock_lanes(closed);
    UPDATE :schema.lanes l SET ready = true, pass = greatest(l.pass, u.group_pass)
    FROM (SELECT n.place, g.pass AS group_pass FROM unnest(locked) u (lane_id)
          CROSS JOIN LATERAL (SELECT o.ctid AS place FROM :schema.lanes o WHERE o.id = u.lane_id
                              ORDER BY o.id, o.pass DESC LIMIT 1) n
          CROSS JOIN LATERAL (SELECT o.pass FROM :schema.executor_groups o
                              WHERE o.id BETWEEN (u.lane_id >> 32)::integer AND (u.lane_id >> 32)::integer
                              ORDER BY o.id DESC LIMIT 1) g) u
    WHERE l.ctid = u.place AND NOT l.ready AND l.runnable > 0;
    IF cardinality(locked) < cardinality(closed) THEN
        INSERT INTO :schema.lane_wakeups (lane_id)
        SELECT u.lane_id FROM unnest(closed) u (lane_id) WHERE (u.lane_id IN (SELECT unnest(locked))) IS NOT TRUE;
    END IF;
END
$$;
