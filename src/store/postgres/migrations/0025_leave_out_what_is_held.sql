-- What a caller's transaction holds, nobody else waits for; and what it cannot see, it does not pass over.
--
-- 1. An act in a caller's transaction has its workspace, and what it is about, until the caller commits. A set of records with one item of
-- that workspace waited for him and was then repeated whole, so the ends of all other workspaces waited with it; and a bulk of
-- cancels and a set, which take items in different orders, could wait for each other. A set now waits a moment; then what
-- somebody holds is left out of it, and only that is repeated. A recovery that found poison in such a workspace was repeated whole, too.
-- 2. A resume in a transaction that does not see a new executor group left its lane closed for good.
-- 3. An enqueue of one in SQL takes the short way that one from a node takes (0019).
-- 4. What waited for nodes with dispatch.exclusive was ready, with no word of the lock that they wait for.

-- --- 1. what a caller's transaction holds ---

-- Where in these arrays, which name the item of each record and whether the record gives its slot back, somebody else has the item, or
-- the workspace that the slot goes back to; all places of such an item, so that its records keep their order. Everything else is locked
-- for the rest of the transaction, in the order that all keep, waiting for nobody. An item that has ended is nobody's.
CREATE FUNCTION :schema.held_by_others(ids uuid[], frees boolean[]) RETURNS SETOF integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    locked uuid[];
    owners integer[];
    wanted integer[];
    busy uuid[];
BEGIN
    SELECT array_agg(o.id), array_agg(o.workspace_id) INTO locked, owners
    FROM (SELECT q.id, q.workspace_id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids)
          ORDER BY q.id FOR UPDATE SKIP LOCKED) o;
    wanted := ARRAY(SELECT o.workspace_id FROM unnest(locked, owners) o (id, workspace_id)
                    WHERE o.id IN (SELECT r.id FROM unnest(ids, frees) r (id, frees) WHERE r.frees) GROUP BY 1 ORDER BY 1);
    wanted := ARRAY(SELECT unnest(wanted) EXCEPT SELECT unnest(:schema.lock_workspaces(wanted)));
    busy := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q
                  WHERE q.id = ANY (ids) AND (q.id IN (SELECT unnest(locked))) IS NOT TRUE)
            || ARRAY(SELECT o.id FROM unnest(locked, owners) o (id, workspace_id)
                     WHERE o.workspace_id = ANY (wanted)
                       AND o.id IN (SELECT r.id FROM unnest(ids, frees) r (id, frees) WHERE r.frees));
    RETURN QUERY SELECT r.place::integer FROM unnest(ids) WITH ORDINALITY r (id, place) WHERE r.id IN (SELECT unnest(busy));
END
$$;

-- As before, but it waits for nobody longer than this. It is shorter than the time after which the server looks for those who wait
-- for each other.
ALTER FUNCTION :schema.record(bigint, uuid[], bigint[], integer[], bigint[], boolean[], text[], text[], integer[], text[], text[],
                              integer[], integer[], integer[], bigint[], boolean[], bytea[], bytea[], text[], text[])
    SET lock_timeout = '200ms';

-- As before, but what would become poison, and give back the slot of a workspace that somebody holds, is left to the next recovery; all
-- others were left with it.
CREATE OR REPLACE FUNCTION :schema.hand_over(ids uuid[], why text, handovers_max integer, now_us bigint, OUT handed_over integer,
                                             OUT poisoned integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next_fence bigint := nextval(':schema.fences');
    lost uuid[];
    freed integer[];
    dying uuid[];
    owners integer[];
    ours integer[];
BEGIN
    SELECT array_agg(c.id), array_agg(q.workspace_id) INTO dying, owners
    FROM :schema.count_handovers(ids) c JOIN :schema.workflow_execution_queue q ON q.id = c.id
    WHERE c.running IS NOT NULL AND c.counted >= handovers_max;
    IF dying IS NOT NULL THEN
        ours := :schema.lock_workspaces(ARRAY(SELECT DISTINCT u.owner FROM unnest(owners) u (owner) ORDER BY 1));
        ids := ARRAY(SELECT unnest(ids)
                     EXCEPT SELECT d.id FROM unnest(dying, owners) d (id, owner) WHERE d.owner <> ALL (ours));
    END IF;
    PERFORM :schema.tell_claims(ids);
    WITH before AS MATERIALIZED (
        SELECT c.id, c.node_id, c.running, c.counted, c.ended FROM :schema.count_handovers(ids) c
    ), taken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, handovers = q.handovers + 1, interruptions = q.interruptions + 1,
            handovers_counted = b.counted, steps_ended = b.ended
        FROM before b WHERE q.id = b.id
        RETURNING q.id, b.node_id, b.running, b.counted, b.running IS NOT NULL AND b.counted >= handovers_max AS poison
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT t.id, now_us, CASE WHEN t.poison THEN 'poison' ELSE 'hand_over' END, t.node_id, next_fence, why,
               CASE WHEN t.running IS NOT NULL THEN format('%s of %s while it ran %s', t.counted, handovers_max, t.running) END
        FROM taken t
    )
    SELECT array_agg(t.id) FILTER (WHERE t.poison), count(*) FILTER (WHERE NOT t.poison), count(*) FILTER (WHERE t.poison)
    INTO lost, handed_over, poisoned FROM taken t;
    IF lost IS NOT NULL THEN
        SELECT array_agg(m.workspace_id) INTO freed
        FROM :schema.move_to_history(lost, 'FAILED', 'poison',
                                     format('its node died %s times while it ran, and no step of it ended in between; '
                                            'it is not tried again', handovers_max),
                                     now_us) m;
        PERFORM :schema.free_slots(freed, array_fill('FAILED'::text, ARRAY[cardinality(freed)]));
    END IF;
END
$$;

-- --- 2. what a transaction cannot see ---

-- Refuses, with 40001, a transaction that does not see all executor groups: the ids that were given out are asked for by rows that
-- nobody else ever sees.
CREATE FUNCTION :schema.refuse_unseen_groups() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  bigint;
    probes integer[];
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RETURN;
    END IF;
    given := pg_sequence_last_value(pg_get_serial_sequence(':schema.executor_groups', 'id')::regclass);
    WITH probe AS (
        INSERT INTO :schema.executor_groups (id, name)
        SELECT i, format('%s is not seen', i) FROM generate_series(1, given::integer) i
        WHERE NOT EXISTS (SELECT 1 FROM :schema.executor_groups g WHERE g.id = i)
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT array_agg(p.id) INTO probes FROM probe p;
    DELETE FROM :schema.executor_groups g WHERE g.id = ANY (probes);
END
$$;

-- As before, but a resume in such a transaction opened the lanes of the groups that it saw, and those of a newer one stayed closed
-- until something else was enqueued there.
CREATE OR REPLACE FUNCTION :schema.change_workspace(workspace text, new_plan text, new_limit bigint, new_paused boolean, make boolean)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old    record;
    chosen record;
    new_id integer;
    lane_ids bigint[];
BEGIN
    PERFORM :schema.refuse_unseen_groups();
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

-- --- 3. the short way ---

-- As before, but one request whose id is made here takes the short way (0019), which leaves all that is not plain to the long one.
CREATE OR REPLACE FUNCTION :schema.try_enqueue(workspace text, workflow text, params text DEFAULT NULL, idempotency_key text DEFAULT NULL,
                                    priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                    execution_id uuid DEFAULT NULL,
                                    OUT status text, OUT id uuid, OUT duplicate boolean, OUT message text, OUT hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    nearest text;
BEGIN
    duplicate := false;
    SELECT p.status, p.message, p.hint INTO status, message, hint
    FROM :schema.request_problem(workspace, workflow, params, idempotency_key, priority, run_at, executor_group) p;
    IF status IS NULL AND :schema.execution_id_is_wrong(execution_id) THEN
        status := 'invalid_argument';
        message := format('"%s" is not an execution id', execution_id);
        hint := 'an id is a UUIDv7, as 01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79';
    END IF;
    IF status IS NOT NULL THEN
        RETURN;
    END IF;
    IF execution_id IS NULL THEN
        SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO status, id, duplicate, message, hint
        FROM :schema.enqueue_one(:schema.make_id(:schema.store_time(), 0), workspace, workflow, convert_to(nullif(params, '{}'), 'UTF8'),
                                 idempotency_key, executor_group, priority, :schema.microseconds_of(run_at), NULL) s;
    ELSE
        SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO status, id, duplicate, message, hint
        FROM :schema.enqueue_set(ARRAY[execution_id], ARRAY[true], ARRAY[workspace], ARRAY[workflow],
                                 ARRAY[convert_to(nullif(params, '{}'), 'UTF8')], ARRAY[idempotency_key], ARRAY[executor_group],
                                 ARRAY[priority], ARRAY[:schema.microseconds_of(run_at)], '{}') s;
    END IF;
    IF status IN ('workspace_not_found', 'workflow_not_found') THEN
        hint := coalesce('did you mean "' || :schema.nearest_name(status, workspace, workflow) || '"?', hint);
    END IF;
END
$$;

-- --- 4. why ---

-- Who has the lock without which nodes with dispatch.exclusive start nothing, of what is ready; NULL when nobody has it, and without a
-- table that can be read.
CREATE FUNCTION :schema.exclusive_lock(pending_reason text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('lock_holder', l.locked_by, 'lock_until', :schema.rfc3339(l.lock_until AT TIME ZONE 'UTC'))
            FROM :schema.shedlock l
            WHERE pending_reason = 'ready' AND l.name = 'processExecutionQueue'
              AND l.lock_until > :schema.time_of(:schema.store_time()) AT TIME ZONE 'UTC');
EXCEPTION WHEN syntax_error_or_access_rule_violation THEN -- no table, no column, no right
    RETURN NULL;
END
$$;

-- As before, and with that.
CREATE OR REPLACE FUNCTION :schema.why(execution_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer jsonb;
BEGIN
    PERFORM :schema.check_act(execution_id, NULL);
    SELECT l.living::jsonb || coalesce(:schema.place_of(execution_id)::jsonb, '{}')
           || coalesce(:schema.exclusive_lock(l.living ->> 'pending_reason'), '{}')
    INTO answer FROM (SELECT :schema.why_living(execution_id) AS living) l;
    IF answer IS NULL THEN
        SELECT :schema.execution_json(e)::jsonb || '{"because": "it has ended"}' INTO answer
        FROM :schema.executions e WHERE e.id = why.execution_id;
    END IF;
    IF answer IS NULL THEN
        PERFORM :schema.refuse('execution_not_found', format('there is no execution %s', execution_id),
                               'weir list shows what there is; ended ones are removed after the retention time');
    END IF;
    RETURN answer;
END
$$;
