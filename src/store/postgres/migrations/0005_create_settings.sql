-- Settings of the queue: plans, workspaces, pauses, definitions. Data, changed without restart while nodes claim.
--
-- Locks: the plan's row before the workspaces' rows, those by ascending id, and nothing else; lanes are told by wake-ups, which
-- the next claim folds. A workspace that is joining a plan holds that plan's row FOR SHARE, so the limits that it takes over
-- are not changed at that moment.

-- Its limits or its pause have changed: each of its lanes is to be looked at. After the change, in a statement of its own, so
-- that a lane that was made before the change was visible is not missed.
CREATE FUNCTION :schema.wake_workspaces(workspace_ids integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO :schema.lane_wakeups (lane_id)
    SELECT l.id FROM unnest(workspace_ids) w (id) CROSS JOIN :schema.executor_groups g
    JOIN :schema.lanes l ON l.id = :schema.lane_id(g.id, w.id) ORDER BY l.id;
    -- All groups: where nothing was claimed yet there is no lane, but a wake-up that waits.
    PERFORM :schema.notify_work(g.name) FROM :schema.executor_groups g;
END
$$;

-- Makes or changes a plan. 0 = leave as it is. ok, or plan_not_found: a new plan needs its limit.
CREATE FUNCTION :schema.change_plan(plan_name text, new_limit bigint, new_weight integer) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    workspace_ids integer[];
BEGIN
    IF new_limit = 0 THEN
        UPDATE :schema.plans p SET weight = coalesce(nullif(new_weight, 0), p.weight) WHERE p.name = plan_name;
        IF NOT FOUND THEN
            RETURN 'plan_not_found';
        END IF;
    ELSE
        INSERT INTO :schema.plans AS p (name, max_concurrent, weight) VALUES (plan_name, new_limit, greatest(new_weight, 1))
        ON CONFLICT (name) DO UPDATE
        SET max_concurrent = excluded.max_concurrent, weight = coalesce(nullif(new_weight, 0), p.weight);
    END IF;
    workspace_ids := ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.plan = plan_name ORDER BY w.id FOR NO KEY UPDATE);
    UPDATE :schema.workspaces w
    SET slots_max = coalesce(w.max_concurrent, p.max_concurrent), weight = p.weight
    FROM :schema.plans p WHERE p.name = plan_name AND w.id = ANY (workspace_ids);
    PERFORM :schema.wake_workspaces(workspace_ids);
    RETURN 'ok';
END
$$;

-- Makes or changes a workspace. new_plan NULL = leave (free for a new one); new_limit 0 = leave, -1 = as the plan says;
-- new_paused NULL = leave. ok, plan_not_found or workspace_not_found.
CREATE FUNCTION :schema.change_workspace(workspace text, new_plan text, new_limit bigint, new_paused boolean, make boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old    record;
    chosen record;
    new_id integer;
BEGIN
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

-- Pauses or resumes claiming of a group, or of the whole queue (NULL). ok, or not_found.
CREATE FUNCTION :schema.change_pause(group_name text, new_paused boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF group_name IS NULL THEN
        UPDATE :schema.store_state s SET queue_paused = new_paused WHERE s.id = 1;
    ELSE
        UPDATE :schema.executor_groups g SET paused = new_paused WHERE g.name = group_name;
        IF NOT FOUND THEN
            RETURN 'not_found';
        END IF;
    END IF;
    PERFORM :schema.notify_work(g.name) FROM :schema.executor_groups g WHERE group_name IS NULL OR g.name = group_name;
    RETURN 'ok';
END
$$;

-- Publishes a definition: a new version, unless the newest has the same text. `owner` NULL = for every workspace. One publisher
-- of a name at a time.
CREATE FUNCTION :schema.publish_definition(definition_name text, owner text, text_of_it text, new_attempts_max integer,
                                           OUT status text, OUT definition_id bigint, OUT version integer, OUT unchanged boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner_id integer := 0;
    newest   record;
BEGIN
    status := 'ok';
    unchanged := false;
    IF owner IS NOT NULL THEN
        SELECT w.id INTO owner_id FROM :schema.workspaces w WHERE w.name = owner;
        IF NOT FOUND THEN
            status := 'workspace_not_found';
            RETURN;
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext(:'schema' || '.publish'), hashtext(definition_name));
    SELECT d.id, d.version, d.definition INTO newest FROM :schema.workflow_definitions d
    WHERE d.name = definition_name AND d.workspace_id = owner_id ORDER BY d.version DESC LIMIT 1;
    IF FOUND AND newest.definition = text_of_it THEN
        definition_id := newest.id;
        version := newest.version;
        unchanged := true;
        RETURN;
    END IF;
    INSERT INTO :schema.workflow_definitions AS d (workspace_id, name, version, definition, attempts_max, created_at)
    VALUES (owner_id, definition_name, coalesce(newest.version, 0) + 1, text_of_it, new_attempts_max, :schema.store_time())
    RETURNING d.id, d.version INTO definition_id, version;
END
$$;

-- --- what callers use ---

CREATE FUNCTION :schema.pause_workspace(workspace text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.refuse_workspace(workspace) WHERE :schema.change_workspace(workspace, NULL, 0, true, false) <> 'ok';
END
$$;

CREATE FUNCTION :schema.resume_workspace(workspace text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.refuse_workspace(workspace) WHERE :schema.change_workspace(workspace, NULL, 0, false, false) <> 'ok';
END
$$;

CREATE FUNCTION :schema.refuse_workspace(workspace text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.refuse('workspace_not_found', format('there is no workspace "%s"', workspace),
                           coalesce('did you mean "' || :schema.nearest_name('workspace_not_found', workspace, NULL) || '"?',
                                    'weir workspace list shows them; weir workspace set makes one'));
END
$$;

-- What a workspace uses and may use; NULL = all of them.
CREATE FUNCTION :schema.usage(workspace text DEFAULT NULL)
RETURNS TABLE (name text, plan text, slots_used integer, slots_max integer, max_concurrent integer, weight integer, paused boolean,
               pending bigint, waiting bigint, completed bigint, failed bigint, cancelled bigint, created_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT w.name, w.plan, w.slots_used, w.slots_max, w.max_concurrent, w.weight, w.paused, coalesce(b.runnable + b.waiting, 0),
               coalesce(b.waiting, 0), w.completed, w.failed, w.cancelled, :schema.time_of(w.created_at)
        FROM :schema.workspaces w
        LEFT JOIN (SELECT k.workspace_id, sum(k.runnable)::bigint AS runnable, sum(k.waiting)::bigint AS waiting
                   FROM :schema.lane_books k GROUP BY k.workspace_id) b ON b.workspace_id = w.id
        WHERE usage.workspace IS NULL OR w.name = usage.workspace
        ORDER BY w.name;
    IF NOT FOUND AND usage.workspace IS NOT NULL THEN
        PERFORM :schema.refuse_workspace(usage.workspace);
    END IF;
END
$$;

-- --- why ---

-- What a pending_reason means for a person (queue/item.h).
CREATE FUNCTION :schema.meaning_of(pending_reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE pending_reason
        WHEN 'handed_over' THEN 'its node died; another node takes it over with the same ids'
        WHEN 'backing_off' THEN 'its last start was refused; it is tried again when the delay is over'
        WHEN 'scheduled' THEN 'its run_at is in the future'
        WHEN 'workspace_paused' THEN 'its workspace is paused'
        WHEN 'queue_paused' THEN 'the queue is paused'
        WHEN 'no_node_in_group' THEN 'no live node serves its executor group'
        WHEN 'engine_unreachable' THEN 'no node of its group reaches its engine'
        WHEN 'workspace_at_capacity' THEN 'its workspace uses all the slots of its plan'
        WHEN 'ready' THEN 'nothing holds it back; it starts when its turn comes' END
$$;

-- An execution as the view shows it, with times as text.
CREATE FUNCTION :schema.execution_json(e :schema.executions) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT json_build_object(
        'id', e.id, 'workspace', e.workspace, 'workflow', e.workflow, 'version', e.version, 'status', e.status,
        'pending_reason', e.pending_reason, 'priority', e.priority, 'run_at', :schema.rfc3339(e.run_at), 'attempts', e.attempts,
        'deferrals', e.deferrals, 'handovers', e.handovers, 'execution_id', e.execution_id, 'node', e.node, 'fence', e.fence,
        'error_code', e.error_code, 'error', e.error, 'created_at', :schema.rfc3339(e.created_at),
        'claimed_at', :schema.rfc3339(e.claimed_at), 'dispatched_at', :schema.rfc3339(e.dispatched_at),
        'finished_at', :schema.rfc3339(e.finished_at), 'executor_group', e.executor_group, 'idempotency_key', e.idempotency_key,
        'retry_of', e.retry_of)
$$;

-- Why a living execution is not running, or what it does; NULL when there is none of that id. One statement: one state of the
-- store. Indexes: the primary keys, queue_held for who has the slots, queue_runnable for its place, which is counted up to 10000.
CREATE FUNCTION :schema.why_living(execution_id uuid) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT json_build_object(
        'id', e.id, 'status', e.status, 'pending_reason', e.pending_reason,
        'because', coalesce(:schema.meaning_of(e.pending_reason),
                            CASE WHEN e.dispatched_at IS NULL THEN 'its node has claimed it and starts it' ELSE 'it is running' END),
        'workspace', e.workspace, 'plan', w.plan, 'workflow', e.workflow, 'version', e.version, 'slots_used', w.slots_used,
        'slots_max', w.slots_max, 'attempts', e.attempts, 'deferrals', e.deferrals, 'handovers', e.handovers,
        'run_at', :schema.rfc3339(e.run_at), 'due_at', :schema.rfc3339(q.due_at), 'claimed_at', :schema.rfc3339(e.claimed_at),
        'dispatched_at', :schema.rfc3339(e.dispatched_at), 'node', e.node, 'executor_group', e.executor_group,
        'cancel_requested', q.cancel_at IS NOT NULL, 'error_code', e.error_code, 'error', e.error,
        'waiting_us', (SELECT :schema.store_time()) - q.created_at, 'attempts_max', coalesce(nullif(d.attempts_max, 0), 3),
        'slot_holders', (
            SELECT coalesce(json_agg(h), '[]')
            FROM (SELECT o.id, o.status, n.name AS node,
                         (SELECT string_agg(s.step, ', ' ORDER BY s.step) FROM :schema.workflow_node_executions s
                          WHERE s.execution_id = o.id AND s.finished_at IS NULL) AS steps,
                         (SELECT :schema.store_time()) - coalesce(o.dispatched_at, o.claimed_at) AS running_us
                  FROM :schema.workflow_execution_queue o LEFT JOIN :schema.nodes n ON n.id = o.node_id
                  WHERE o.phase = 2 AND o.workspace_id = q.workspace_id ORDER BY o.claimed_at LIMIT 20) h))
    FROM :schema.executions e
    JOIN :schema.workflow_execution_queue q ON q.id = e.id
    JOIN :schema.workspaces w ON w.id = q.workspace_id
    JOIN :schema.workflow_definitions d ON d.id = q.definition_id
    WHERE e.id = why_living.execution_id AND q.id = why_living.execution_id
$$;

-- Its place in its lane; NULL when it is not runnable.
CREATE FUNCTION :schema.place_of(execution_id uuid) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT json_build_object('place', a.ahead + 1, 'place_is_exact', a.ahead < 10000, 'waiting_in_lane', a.runnable)
    FROM (SELECT (SELECT count(*) FROM (SELECT FROM :schema.workflow_execution_queue o
                                        WHERE o.lane_id = q.lane_id AND o.phase = 0 AND (o.rank, o.id) < (q.rank, q.id)
                                        LIMIT 10000) f) AS ahead,
                 (SELECT b.runnable FROM :schema.lane_books b WHERE b.lane_id = q.lane_id) AS runnable
          FROM :schema.workflow_execution_queue q WHERE q.id = execution_id AND q.phase = 0) a
$$;

-- Why an execution is not running, or what it does, as one JSON object.
CREATE FUNCTION :schema.why(execution_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer jsonb;
BEGIN
    SELECT l.living::jsonb || coalesce(:schema.place_of(execution_id)::jsonb, '{}')
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

REVOKE ALL ON FUNCTION :schema.pause_workspace(text), :schema.resume_workspace(text), :schema.usage(text), :schema.why(uuid)
    FROM PUBLIC;
