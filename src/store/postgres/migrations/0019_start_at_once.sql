-- From an enqueue to the start of what was enqueued, in a node that has nothing else to do: fewer statements, because there each of
-- them costs more to set up and to tear down than what it reads and writes. The rules stay; these functions do the one case in which
-- most of them say nothing, and leave every other to the functions that know them all.

-- As before; without settings of its own the server puts its one expression in the place of the call.
CREATE OR REPLACE FUNCTION :schema.seen_snapshot(since text) RETURNS pg_snapshot
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN since <> '0' AND pg_snapshot_xmax(since::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
                THEN since::pg_snapshot ELSE '1:1:' END
$$;

-- Before a claim, as freshen_lanes(), but when all that is new is one item whose lane is empty, and nothing of the group is ready, due or
-- handed over, then that item is claimed: nobody has an older right to the slot. One transaction instead of two, and one write
-- of the lane. Whatever is not so, or is locked by somebody else, is left to freshen_lanes() and to the claim after it.
--   wakeups_most  `most` of freshen_lanes(); the other arguments as of claim()
-- One row: the columns of claim() of the item, or an id that is NULL, and what freshen_lanes() tells. Locks: as claim(), and that of
-- freshen_lanes().
CREATE FUNCTION :schema.claim_fresh(claimer bigint, claim_group text, since text, from_pass bigint, wakeups_most integer,
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
              FROM pg_snapshot_xip(old) x (xid)
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
                SET status = 'CLAIMED', phase = 2, node_id = claimer, fence = nextval(':schema.fences'), claimed_at = now_us
                WHERE q.ctid = (SELECT h.ctid FROM :schema.workflow_execution_queue h
                                WHERE h.lane_id = news.lane_id AND h.phase = 0 AND h.rank >= lane.head_rank
                                ORDER BY h.rank, h.id LIMIT 1)
                  AND q.phase + 0 = 0
                RETURNING q.id, q.fence, (SELECT d.name FROM :schema.workflow_definitions d WHERE d.id = q.definition_id),
                          (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = q.definition_id), q.definition_id,
                          CASE WHEN q.has_params THEN (SELECT p.params FROM :schema.execution_params p WHERE p.id = q.id) END,
                          q.attempts, q.interruptions, false, q.cancel_at IS NOT NULL, q.created_at, q.run_at, q.dispatched_at,
                          now_us, q.priority, 1, false, own.pass, news.shown, false, q.rank
                INTO id, fence, workflow, version, definition_id, params, attempts, interruptions, handed_over, cancel_requested,
                     created_at, run_at, dispatched_at, claimed_at, priority, lanes, more, first_pass, seen, left_over, item_rank;
                IF FOUND THEN
                    -- What the fold would add to the lane, the claim would take away again.
                    DELETE FROM :schema.lane_wakeups u WHERE u.ctid = news.place;
                    UPDATE :schema.lanes l SET pass = lane.pass + stride, head_rank = item_rank WHERE l.ctid = lane.place;
                    -- The group stands where its last turn began. Another claim that is just moving it is not waited for.
                    UPDATE :schema.executor_groups g SET pass = lane.pass
                    WHERE g.ctid = (SELECT o.ctid FROM :schema.executor_groups o WHERE o.ctid = own.place FOR NO KEY UPDATE SKIP LOCKED)
                      AND g.pass < lane.pass;
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

-- As enqueue_set() for one request whose id its caller has just made, without the arrays. Whatever is not plain (a name that is not there,
-- a key or an id that is there already) is left to enqueue_set(), which knows the answers and makes what is missing.
CREATE FUNCTION :schema.enqueue_one(new_id uuid, workspace text, workflow text, content bytea, idempotency_key text, executor_group text,
                                    priority integer, run_at bigint, default_group text,
                                    OUT status text, OUT id uuid, OUT duplicate boolean, OUT message text, OUT hint text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    starts_at constant bigint := coalesce(run_at, now_us);
    waits constant boolean := coalesce(run_at, now_us) > now_us;
    wanted record;
    goes_on boolean;
BEGIN
    SELECT w.id AS workspace_id, d.id AS definition_id, g.name AS group_name, :schema.lane_id(g.id, w.id) AS lane_id INTO wanted
    FROM (SELECT o.id FROM :schema.workspaces o WHERE o.name BETWEEN enqueue_one.workspace AND enqueue_one.workspace
          ORDER BY o.name DESC LIMIT 1) w
    CROSS JOIN LATERAL (SELECT v.id, v.executor_group FROM :schema.workflow_definitions v -- its own before everybody's, the newest
                        WHERE v.name = enqueue_one.workflow AND v.workspace_id IN (w.id, 0)
                        ORDER BY v.workspace_id DESC, v.version DESC LIMIT 1) d
    CROSS JOIN LATERAL (SELECT coalesce(enqueue_one.executor_group, d.executor_group, default_group, 'default') OFFSET 0) n (name)
    CROSS JOIN LATERAL (SELECT o.id, o.name FROM :schema.executor_groups o WHERE o.name BETWEEN n.name AND n.name
                        ORDER BY o.name DESC LIMIT 1) g;
    goes_on := FOUND;
    IF goes_on AND idempotency_key IS NOT NULL THEN
        INSERT INTO :schema.idempotency_keys (workspace_id, key, execution_id)
        VALUES (wanted.workspace_id, enqueue_one.idempotency_key, new_id) ON CONFLICT DO NOTHING;
        goes_on := FOUND;
    END IF;
    IF goes_on THEN
        INSERT INTO :schema.workflow_execution_queue
            (id, lane_id, workspace_id, definition_id, status, phase, rank, priority, run_at, due_at, has_params, created_at,
             idempotency_key)
        VALUES (new_id, wanted.lane_id, wanted.workspace_id, wanted.definition_id, 'PENDING', CASE WHEN waits THEN 1 ELSE 0 END,
                :schema.item_rank(starts_at, enqueue_one.priority), enqueue_one.priority, starts_at, CASE WHEN waits THEN starts_at END,
                content IS NOT NULL, now_us, enqueue_one.idempotency_key)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            IF content IS NOT NULL THEN
                INSERT INTO :schema.execution_params (id, params) VALUES (new_id, content) ON CONFLICT DO NOTHING;
            END IF;
            INSERT INTO :schema.lane_wakeups (lane_id, runnable, waiting, least_rank)
            VALUES (wanted.lane_id, CASE WHEN waits THEN 0 ELSE 1 END, CASE WHEN waits THEN 1 ELSE 0 END,
                    CASE WHEN NOT waits THEN :schema.item_rank(starts_at, enqueue_one.priority) END);
            PERFORM :schema.notify_work(wanted.group_name);
            status := 'ok';
            id := new_id;
            duplicate := false;
            RETURN;
        END IF;
    END IF;
    SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO status, id, duplicate, message, hint
    FROM :schema.enqueue_set(ARRAY[new_id], ARRAY[false], ARRAY[workspace], ARRAY[workflow], ARRAY[content], ARRAY[idempotency_key],
                             ARRAY[executor_group], ARRAY[priority], ARRAY[run_at], ARRAY[default_group]) s;
END
$$;
