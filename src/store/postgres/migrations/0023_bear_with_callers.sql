-- What a caller's own transaction may do to others. Acts and enqueues are called in transactions that are not weir's: of another
-- isolation level, and open for as long as the caller likes. Found wrong, and mended here:
--
-- 1. Under REPEATABLE READ and SERIALIZABLE a transaction does not see what was committed after its first statement. So it made a lane
-- a second time, retried an execution twice, enqueued an id again that had ended meanwhile (both ran, and their ends could not be
-- recorded, because the history has them), and a resume missed the lanes that it was to open. What is new to such a transaction only a
-- unique index knows: it now gets 40001 there, as every writer does that meets what it cannot see.
-- 2. A lane that such a transaction locks (weir.cancel) is left for later by folds and by what becomes due. Those took the oldest rows up
-- to a limit, so once that many belonged to the locked lane, nothing new of any workspace was found until the caller committed.
-- 3. A transaction that changes a workspace (weir.pause_workspace, and weir.cancel through another group's lane) has the
-- workspace's row, which a claim waits for. It now has all its lanes before, and those a claim goes round.
-- 4. An idempotency key that came with an id which another one enqueued at the same moment stayed, and pointed to that other one's
-- execution, also when it was another workspace's: the next request with the key was told that this was its own.
-- 5. A transaction that had enqueued could not be prepared (two-phase commit). And what a node that stops gives back waited for a poll.

-- --- 1. what a transaction cannot see ---

-- That a lane is there, once: lanes has no unique index (migration 0010). Rows are never changed.
CREATE TABLE :schema.lane_ids (
    id             bigint  NOT NULL PRIMARY KEY
);

-- As before, but the lane's id is noted first, and who cannot see that it was noted gets 40001.
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
        INSERT INTO :schema.lane_ids (id) VALUES (lane_id) ON CONFLICT DO NOTHING;
        INSERT INTO :schema.lanes (id, executor_group, workspace_id, ready, pass)
        SELECT lane_id, g.name, (lane_id & 4294967295)::integer, true, g.pass
        FROM :schema.executor_groups g WHERE g.id = (lane_id >> 32)::integer
          AND NOT EXISTS (SELECT 1 FROM :schema.lanes l WHERE l.id = lane_id);
    END LOOP;
END
$$;

-- Refuses, with 40001, ids that are in the history, and retries whose first one is, where this transaction cannot see it. The unique
-- indexes are asked by rows that nobody else ever sees. `firsts`: what each is the retry of; '{}' = of nothing.
CREATE FUNCTION :schema.refuse_unseen_ends(ids uuid[], firsts uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RETURN;
    END IF;
    INSERT INTO :schema.workflow_executions
        (id, lane_id, definition_id, run_at, fence, node_id, created_at, finished_at, workspace_id, attempts, deferrals, handovers,
         interruptions, priority, has_params, status, retry_of)
    SELECT u.id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 'CANCELLED', u.first FROM unnest(ids, firsts) u (id, first)
    ON CONFLICT DO NOTHING;
    DELETE FROM :schema.workflow_executions h WHERE h.id = ANY (ids) AND h.lane_id = 0;
END
$$;

-- As before, but what was retried or has ended unseen is refused.
CREATE OR REPLACE FUNCTION :schema.retry_items(ids uuid[], new_ids uuid[], actor text, why text)
RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    retried uuid[];
    made uuid[];
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
        ON CONFLICT DO NOTHING
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
    SELECT array_agg(c.retry_of), array_agg(c.id) INTO retried, made FROM copied c;
    PERFORM :schema.refuse_unseen_ends(made, retried);
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (retried) THEN 'changed' WHEN r.id IS NOT NULL THEN 'retried' ELSE 'refused' END,
           coalesce(r.id::text, q.status, h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id
    LEFT JOIN LATERAL (SELECT x.id FROM :schema.workflow_execution_queue x WHERE x.retry_of = u.id
                       UNION ALL SELECT y.id FROM :schema.workflow_executions y WHERE y.retry_of = u.id LIMIT 1) r ON true;
END
$$;

-- As before, but an id that has ended unseen is refused (one line: refuse_unseen_ends). And workspaces and groups are found newest first
-- (0022), and never by a scan of all their versions, which was the plan when it was made while the table had a page.
CREATE OR REPLACE FUNCTION :schema.enqueue_set(ids uuid[], given boolean[], workspaces text[], workflows text[], contents bytea[],
                                    idempotency_keys text[], executor_groups text[], priorities integer[], run_ats bigint[],
                                    default_groups text[])
RETURNS TABLE (place integer, status text, id uuid, duplicate boolean, message text, hint text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now_us         constant bigint := :schema.store_time();
    any_given      constant boolean := coalesce(true = ANY (given), false);
    workspace_ids  integer[];
    definition_ids bigint[];
    group_ids      integer[];
    group_names    text[];
    known          uuid[]; -- given ids that are there already
    keyed          uuid[]; -- ids whose idempotency key is new
    inserted       uuid[];
BEGIN
    -- 1. Names to ids.
    LOOP
        SELECT array_agg(f.workspace_id), array_agg(f.definition_id), array_agg(f.group_id), array_agg(f.group_name)
        INTO workspace_ids, definition_ids, group_ids, group_names
        FROM (SELECT a.workspace_id, d.definition_id, n.group_name,
                     (SELECT g.id FROM :schema.executor_groups g WHERE g.name BETWEEN n.group_name AND n.group_name
                      ORDER BY g.name DESC LIMIT 1) AS group_id
              FROM unnest(workspaces, workflows, executor_groups, default_groups) WITH ORDINALITY
                   r(workspace, workflow, group_name, default_group, place)
              CROSS JOIN LATERAL (SELECT (SELECT w.id FROM :schema.workspaces w WHERE w.name BETWEEN r.workspace AND r.workspace
                                           ORDER BY w.name DESC LIMIT 1) OFFSET 0) a(workspace_id)
              LEFT JOIN LATERAL (
                  SELECT v.id, v.executor_group FROM :schema.workflow_definitions v -- its own before everybody's, the newest
                  WHERE v.name = r.workflow AND v.workspace_id IN (a.workspace_id, 0) AND a.workspace_id IS NOT NULL
                  ORDER BY v.workspace_id DESC, v.version DESC LIMIT 1) d(definition_id, group_name) ON true
              CROSS JOIN LATERAL (
                  SELECT coalesce(r.group_name, d.group_name, r.default_group, 'default') OFFSET 0) n(group_name)
              ORDER BY r.place) f;
        EXIT WHEN NOT EXISTS (SELECT 1 FROM unnest(group_ids, definition_ids) u(group_id, definition_id)
                              WHERE u.group_id IS NULL AND u.definition_id IS NOT NULL);
        INSERT INTO :schema.executor_groups (name)
        SELECT DISTINCT u.name COLLATE "C" FROM unnest(group_names, group_ids, definition_ids) u(name, group_id, definition_id)
        WHERE u.group_id IS NULL AND u.definition_id IS NOT NULL ORDER BY 1
        ON CONFLICT DO NOTHING;
    END LOOP;

    -- 2. What is known already. Keys go in by their order, so that two sets cannot wait for each other.
    IF any_given THEN
        known := ARRAY(SELECT u.id FROM unnest(ids, given) u(id, given)
                       WHERE u.given AND (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = u.id)
                                          OR EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = u.id)));
    END IF;
    IF cardinality(array_remove(idempotency_keys, NULL)) > 0 THEN
        WITH fresh AS (
            INSERT INTO :schema.idempotency_keys (workspace_id, key, execution_id)
            SELECT DISTINCT ON (u.workspace_id, u.key COLLATE "C") u.workspace_id, u.key, u.id
            FROM unnest(workspace_ids, idempotency_keys, ids, definition_ids) WITH ORDINALITY
                 u(workspace_id, key, id, definition_id, place)
            WHERE u.key IS NOT NULL AND u.definition_id IS NOT NULL AND (NOT any_given OR u.id NOT IN (SELECT unnest(known)))
            ORDER BY u.workspace_id, u.key COLLATE "C", u.place
            ON CONFLICT DO NOTHING
            RETURNING execution_id
        )
        SELECT array_agg(f.execution_id) INTO keyed FROM fresh f;
    END IF;

    -- 3. Items, params and one wake-up per lane.
    WITH request AS MATERIALIZED (
        SELECT DISTINCT ON (u.id)
               u.id, :schema.lane_id(u.group_id, u.workspace_id) AS lane_id, u.workspace_id, u.definition_id, u.priority, u.content,
               u.key, coalesce(u.run_at, now_us) AS run_at, coalesce(u.run_at, now_us) > now_us AS waits
        FROM unnest(ids, group_ids, workspace_ids, definition_ids, priorities, contents, idempotency_keys, run_ats) WITH ORDINALITY
             u(id, group_id, workspace_id, definition_id, priority, content, key, run_at, place)
        WHERE u.definition_id IS NOT NULL AND (u.key IS NULL OR u.id IN (SELECT unnest(keyed)))
          AND (NOT any_given OR u.id NOT IN (SELECT unnest(known)))
        ORDER BY u.id, u.place
    ), item AS (
        INSERT INTO :schema.workflow_execution_queue
            (id, lane_id, workspace_id, definition_id, status, phase, rank, priority, run_at, due_at, has_params, created_at,
             idempotency_key)
        SELECT r.id, r.lane_id, r.workspace_id, r.definition_id, 'PENDING', CASE WHEN r.waits THEN 1 ELSE 0 END,
               :schema.item_rank(r.run_at, r.priority), r.priority, r.run_at, CASE WHEN r.waits THEN r.run_at END,
               r.content IS NOT NULL, now_us, r.key
        FROM request r
        ON CONFLICT DO NOTHING
        RETURNING id, lane_id, phase, rank
    ), payload AS (
        INSERT INTO :schema.execution_params (id, params)
        SELECT r.id, r.content FROM request r
        WHERE r.content IS NOT NULL AND (NOT any_given OR r.id IN (SELECT i.id FROM item i))
        ON CONFLICT DO NOTHING
    ), wakeup AS (
        INSERT INTO :schema.lane_wakeups (lane_id, runnable, waiting, least_rank)
        SELECT i.lane_id, count(*) FILTER (WHERE i.phase = 0), count(*) FILTER (WHERE i.phase = 1),
               min(i.rank) FILTER (WHERE i.phase = 0)
        FROM item i GROUP BY i.lane_id
    )
    SELECT array_agg(i.id) INTO inserted FROM item i;
    IF any_given AND inserted IS NOT NULL THEN
        PERFORM :schema.refuse_unseen_ends(inserted, '{}');
        -- A given id that lived and ended between the look at the history and now: it must not live again.
        WITH gone AS (
            DELETE FROM :schema.workflow_execution_queue q
            WHERE q.id = ANY (inserted) AND EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = q.id)
            RETURNING q.id, q.lane_id, q.phase
        ), wakeup AS (
            INSERT INTO :schema.lane_wakeups (lane_id, runnable, waiting)
            SELECT g.lane_id, -count(*) FILTER (WHERE g.phase = 0), -count(*) FILTER (WHERE g.phase = 1) FROM gone g GROUP BY g.lane_id
        )
        SELECT array_agg(i.id) INTO inserted FROM unnest(inserted) i(id) WHERE i.id NOT IN (SELECT g.id FROM gone g);
    END IF;
    IF inserted IS NOT NULL THEN
        PERFORM :schema.notify_work(n.name) FROM (SELECT DISTINCT unnest(group_names)) n(name);
    END IF;

    -- 4. The answers.
    IF cardinality(inserted) = cardinality(ids) THEN
        RETURN QUERY SELECT u.place::integer, 'ok', u.id, false, NULL::text, NULL::text
                     FROM unnest(ids) WITH ORDINALITY u(id, place) ORDER BY u.place;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT r.place, coalesce(a.status, 'ok'), coalesce(a.id, CASE WHEN r.is_new THEN r.id END), coalesce(a.duplicate, false),
               a.message, a.hint
        FROM (SELECT u.place::integer, u.id, u.workspace, u.workflow, u.content, u.key, u.workspace_id, u.definition_id,
                     u.id IN (SELECT unnest(inserted))
                     AND (NOT any_given OR row_number() OVER (PARTITION BY u.id ORDER BY u.place) = 1) AS is_new
              FROM unnest(ids, workspaces, workflows, contents, idempotency_keys, workspace_ids, definition_ids) WITH ORDINALITY
                   u(id, workspace, workflow, content, key, workspace_id, definition_id, place)) r
        LEFT JOIN LATERAL (
            SELECT e.* FROM :schema.enqueue_answer(r.id, r.workspace, r.workflow, r.content, r.key, r.workspace_id, r.definition_id) e
            WHERE r.is_new IS NOT TRUE OFFSET 0) a ON true -- OFFSET: not even called for what is new
        ORDER BY r.place;
END
$$;

-- --- 2. lanes that somebody holds ---

-- As before, but where rows of lanes that somebody else has locked fill the limit, it goes on behind them.
CREATE OR REPLACE FUNCTION :schema.fold_wakeups(since text, most integer, OUT seen text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    old constant pg_snapshot := :schema.seen_snapshot(since);
    present pg_snapshot;
    places tid[];
    wanted bigint[];
    locked bigint[];
    busy bigint[] := '{}'; -- lanes that somebody else has locked
    looked integer := 0;
    folded bigint[];
    runnables bigint[];
    waitings bigint[];
    least_ranks bigint[];
BEGIN
    LOOP
        SELECT pg_current_snapshot(), array_agg(r.place), array_agg(DISTINCT r.lane_id)
        INTO present, places, wanted
        FROM (SELECT n.place, n.lane_id
              FROM (SELECT o.place, o.lane_id
                    FROM pg_snapshot_xip(old) x (xid)
                    CROSS JOIN LATERAL (SELECT u.ctid AS place, u.lane_id FROM :schema.lane_wakeups u
                                        WHERE u.xid = x.xid AND u.lane_id <> ALL (busy) ORDER BY u.xid, u.n LIMIT most) o
                    UNION ALL
                    (SELECT u.ctid AS place, u.lane_id FROM :schema.lane_wakeups u
                     WHERE u.xid >= pg_snapshot_xmax(old) AND u.lane_id <> ALL (busy) ORDER BY u.xid, u.n LIMIT most)) n
              LIMIT most) r;
        left_over := cardinality(busy) > 0;
        EXIT WHEN places IS NULL;
        IF looked < 500 THEN -- the server's table of locks is small
            PERFORM :schema.make_lanes(wanted, false);
        END IF;
        looked := looked + cardinality(wanted);
        locked := :schema.lock_lanes(wanted);
        busy := busy || ARRAY(SELECT unnest(wanted) EXCEPT SELECT unnest(locked));
        left_over := cardinality(busy) > 0 OR cardinality(places) >= most;
        WITH gone AS (
            DELETE FROM :schema.lane_wakeups u
            WHERE u.ctid = ANY (places) AND u.lane_id <> ALL (busy)
            RETURNING u.lane_id, u.runnable, u.waiting, u.least_rank
        ), sums AS (
            SELECT d.lane_id, sum(d.runnable) AS runnable, sum(d.waiting) AS waiting, min(d.least_rank) AS least_rank
            FROM gone d GROUP BY d.lane_id
        )
        SELECT array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.waiting), array_agg(s.least_rank)
        INTO folded, runnables, waitings, least_ranks FROM sums s;
        PERFORM :schema.change_lanes(folded, runnables, waitings, least_ranks);
        EXIT WHEN cardinality(places) < most OR cardinality(locked) = cardinality(wanted);
    END LOOP;
    seen := :schema.snapshot_text(CASE WHEN left_over THEN old ELSE present END);
END
$$;

-- As before, but where items of lanes that somebody else has locked fill the limit, it goes on behind them.
CREATE OR REPLACE FUNCTION :schema.promote_due(now_us bigint, most integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    due uuid[];
    wanted bigint[];
    locked bigint[];
    busy bigint[] := '{}'; -- lanes that somebody else has locked
    looked integer := 0;
    promoted bigint[];
    counts bigint[];
    least_ranks bigint[];
BEGIN
    LOOP
        SELECT array_agg(r.id), array_agg(DISTINCT r.lane_id) INTO due, wanted
        FROM (SELECT q.id, q.lane_id FROM :schema.workflow_execution_queue q
              WHERE q.phase = 1 AND q.due_at <= now_us AND q.lane_id <> ALL (busy) ORDER BY q.due_at LIMIT most) r;
        EXIT WHEN due IS NULL;
        IF looked < 500 THEN
            PERFORM :schema.make_lanes(wanted, false);
        END IF;
        looked := looked + cardinality(wanted);
        locked := :schema.lock_lanes(wanted);
        WITH moved AS (
            UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL
            WHERE q.id = ANY (due) AND q.phase + 0 = 1 AND q.due_at <= now_us AND q.lane_id = ANY (locked)
            RETURNING q.lane_id, q.rank
        ), sums AS (
            SELECT m.lane_id, count(*) AS runnable, min(m.rank) AS least_rank FROM moved m GROUP BY m.lane_id
        )
        SELECT array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.least_rank) INTO promoted, counts, least_ranks FROM sums s;
        PERFORM :schema.change_lanes(promoted, counts, ARRAY(SELECT -c FROM unnest(counts) c), least_ranks);
        EXIT WHEN cardinality(due) < most OR cardinality(locked) = cardinality(wanted);
        busy := busy || ARRAY(SELECT unnest(wanted) EXCEPT SELECT unnest(locked));
    END LOOP;
END
$$;

-- --- 3. workspaces that somebody holds ---

-- As before, but all lanes of these workspaces are locked: an act may take the workspace's row, and a claim that goes round one lane
-- would wait for it with another.
CREATE OR REPLACE FUNCTION :schema.lock_items(ids uuid[])
RETURNS TABLE (id uuid, phase smallint, lane_id bigint, workspace_id integer, rank bigint, status text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    wanted bigint[] := ARRAY(SELECT DISTINCT q.lane_id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids));
BEGIN
    PERFORM :schema.make_lanes(wanted, true);
    PERFORM 1 FROM :schema.lanes l
    WHERE l.id = ANY (ARRAY(SELECT DISTINCT :schema.lane_id(g.id, (u.lane_id & 4294967295)::integer)
                            FROM unnest(wanted) u (lane_id) CROSS JOIN :schema.executor_groups g))
    ORDER BY l.id FOR NO KEY UPDATE;
    RETURN QUERY
    SELECT q.id, q.phase, q.lane_id, q.workspace_id, q.rank, q.status FROM :schema.workflow_execution_queue q
    WHERE q.id = ANY (ids) ORDER BY q.id FOR NO KEY UPDATE;
END
$$;

-- As before, but its lanes are locked first.
CREATE OR REPLACE FUNCTION :schema.change_workspace(workspace text, new_plan text, new_limit bigint, new_paused boolean, make boolean)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old    record;
    chosen record;
    new_id integer;
    lane_ids bigint[];
BEGIN
    lane_ids := ARRAY(SELECT :schema.lane_id(g.id, w.id) FROM :schema.workspaces w CROSS JOIN :schema.executor_groups g
                      WHERE w.name = workspace);
    PERFORM :schema.make_lanes(lane_ids, true); -- so that nobody else makes them meanwhile
    PERFORM 1 FROM :schema.lanes l WHERE l.id = ANY (lane_ids) ORDER BY l.id FOR NO KEY UPDATE;
    LOOP
        SELECT w.id, w.plan INTO old FROM :schema.workspaces w WHERE w.name = workspace;
        SELECT p.name, p.max_concurrent, p.weight INTO chosen
        FROM :schema.plans p WHERE p.name = coalesce(new_plan, old.plan, 'free') FOR SHARE;
        IF NOT FOUND THEN
            RETURN 'plan_not_found';
        ELSIF old.id IS NULL AND NOT make THEN
            RETURN 'workspace_not_found';
        ELSIF old.id IS NULL THEN
            INSERT INTO :schema.workspaces (name, plan, max_concurrent, slots_max, weight, paused, created_at)
            VALUES (workspace, chosen.name, CASE WHEN new_limit > 0 THEN new_limit END,
                    CASE WHEN new_limit > 0 THEN new_limit ELSE chosen.max_concurrent END, chosen.weight,
                    coalesce(new_paused, false), :schema.store_time())
            ON CONFLICT (name) DO NOTHING RETURNING id INTO new_id;
            EXIT WHEN new_id IS NOT NULL;
        ELSE
            UPDATE :schema.workspaces w
            SET plan = chosen.name, weight = chosen.weight, paused = coalesce(new_paused, w.paused),
                max_concurrent = CASE new_limit WHEN 0 THEN w.max_concurrent WHEN -1 THEN NULL ELSE new_limit END,
                slots_max = coalesce(CASE new_limit WHEN 0 THEN w.max_concurrent WHEN -1 THEN NULL ELSE new_limit END,
                                     chosen.max_concurrent)
            WHERE w.id = old.id AND w.plan = old.plan;
            EXIT WHEN FOUND;
        END IF;
        -- Somebody else made it, or moved it to another plan, meanwhile: look again.
    END LOOP;
    IF old.id IS NOT NULL THEN
        PERFORM :schema.wake_workspaces(ARRAY[old.id]);
    END IF;
    RETURN 'ok';
END
$$;

-- --- 4. keys ---

-- As before, but a key that points to an execution which has not got it was put there by this very call, for nothing, and goes again.
CREATE OR REPLACE FUNCTION :schema.enqueue_answer(request_id uuid, workspace text, workflow text, content bytea, idempotency_key text,
                                       workspace_id integer, definition_id bigint,
                                       OUT status text, OUT id uuid, OUT duplicate boolean, OUT message text, OUT hint text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    first record;
BEGIN
    duplicate := false;
    IF workspace_id IS NULL THEN
        status := 'workspace_not_found';
        message := format('there is no workspace "%s"', workspace);
        hint := format('make it with: weir workspace set %s --plan free', workspace);
        RETURN;
    ELSIF definition_id IS NULL AND EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.name = workflow) THEN
        status := 'workflow_of_another_workspace';
        message := format('workflow "%s" belongs to another workspace than "%s"', workflow, workspace);
        hint := 'publish it for this workspace, or without an owner so that every workspace may run it';
        RETURN;
    ELSIF definition_id IS NULL THEN
        status := 'workflow_not_found';
        message := format('workspace "%s" has no workflow "%s"', workspace, workflow);
        hint := 'publish it with: weir workflow apply FILE';
        RETURN;
    END IF;
    IF idempotency_key IS NOT NULL THEN
        DELETE FROM :schema.idempotency_keys k
        WHERE k.workspace_id = enqueue_answer.workspace_id AND k.key = idempotency_key AND k.execution_id = request_id
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = k.execution_id AND q.workspace_id = k.workspace_id
                                                                             AND q.idempotency_key = k.key)
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = k.execution_id AND h.workspace_id = k.workspace_id
                                                                        AND h.idempotency_key = k.key);
        SELECT k.execution_id, d.name, p.params INTO first
        FROM :schema.idempotency_keys k
        LEFT JOIN :schema.workflow_execution_queue q ON q.id = k.execution_id
        LEFT JOIN :schema.workflow_executions h ON h.id = k.execution_id
        LEFT JOIN :schema.workflow_definitions d ON d.id = coalesce(q.definition_id, h.definition_id)
        LEFT JOIN :schema.execution_params p ON p.id = k.execution_id
        WHERE k.workspace_id = enqueue_answer.workspace_id AND k.key = idempotency_key;
        IF FOUND AND first.name = workflow AND first.params IS NOT DISTINCT FROM content THEN
            status := 'ok';
            duplicate := true;
            id := first.execution_id;
            RETURN;
        ELSIF FOUND THEN
            status := 'idempotency_key_reused';
            message := format('idempotency key "%s" was used before with another workflow or other params (execution %s)',
                              idempotency_key, first.execution_id);
            hint := 'use a new key for a new request';
            RETURN;
        END IF;
    END IF;
    -- The same id again is a repeated request; another workspace's id is nothing that this one may learn about (design 6.13).
    SELECT o.owner INTO first
    FROM (SELECT q.workspace_id AS owner FROM :schema.workflow_execution_queue q WHERE q.id = request_id
          UNION ALL SELECT h.workspace_id FROM :schema.workflow_executions h WHERE h.id = request_id) o LIMIT 1;
    IF FOUND AND first.owner = workspace_id THEN
        status := 'ok';
        duplicate := true;
        id := request_id;
    ELSIF FOUND THEN
        status := 'conflict';
        message := format('the id %s cannot be used', request_id);
        hint := 'leave the id out, then a new one is made';
    ELSE
        RAISE serialization_failure USING MESSAGE = 'what made this request a duplicate was removed at this moment',
            HINT = 'repeat it';
    END IF;
END
$$;

-- --- 5. who is told ---

-- As before, unless the transaction says SET LOCAL weir.notify = 'off': one with a notification cannot be prepared.
CREATE OR REPLACE FUNCTION :schema.notify_work(executor_group text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('weir.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify(:'schema', executor_group);
    END IF;
END
$$;

-- As before, but the other nodes of the group hear of what is given back.
CREATE OR REPLACE FUNCTION :schema.stop_node(leaver bigint, is_graceful boolean, most integer) RETURNS integer
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
        PERFORM :schema.tell_claims(ids);
        next_fence := nextval(':schema.fences');
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, interruptions = q.interruptions + 1 WHERE q.id = ANY (ids);
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason)
        SELECT i, now_us, 'give_back', leaver, next_fence, 'its node stops' FROM unnest(ids) i;
        PERFORM :schema.notify_work(n.executor_group) FROM :schema.nodes n WHERE n.id = leaver;
    END IF;
    IF cardinality(ids) < most THEN
        UPDATE :schema.nodes n SET stopped_at = now_us, active_at = now_us, expires_at = now_us, graceful = is_graceful
        WHERE n.id = leaver AND n.stopped_at IS NULL AND n.dead_at IS NULL;
        UPDATE :schema.nodes n SET recovered_at = now_us WHERE n.id = leaver AND n.recovered_at IS NULL;
    END IF;
    RETURN cardinality(ids);
END
$$;

-- Last, because it holds up everybody until the commit.
LOCK TABLE :schema.lanes IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO :schema.lane_ids (id) SELECT DISTINCT l.id FROM :schema.lanes l;
