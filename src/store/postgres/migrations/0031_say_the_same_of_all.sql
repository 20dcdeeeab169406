-- As before, and what a node has or runs is not due: that time was of the wait before its claim. So says the library.
CREATE OR REPLACE FUNCTION :schema.why(execution_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer jsonb;
BEGIN
    PERFORM :schema.check_act(execution_id, NULL);
    SELECT l.living::jsonb || coalesce(:schema.place_of(execution_id)::jsonb, '{}')
           || coalesce(:schema.exclusive_lock(l.living ->> 'pending_reason'), '{}')
           || CASE WHEN l.living ->> 'status' IN ('CLAIMED', 'DISPATCHED') THEN '{"due_at": null}' ELSE '{}' END::jsonb
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

-- As before, but a cancel of what waits is no failure of it either: it leaves the error of the last one, as when a node ends it.
CREATE OR REPLACE FUNCTION :schema.cancel_items(ids uuid[], actor text, why text) RETURNS TABLE (item uuid, outcome text, detail text)
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
            SELECT m.lane_id, m.workspace_id, m.phase FROM :schema.move_to_history(pending, 'CANCELLED', NULL, NULL, now_us) m
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

-- A text as one word of a shell's command line (base/shell_word.h).
CREATE FUNCTION :schema.shell_word(word text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN word ~ '^[-a-zA-Z0-9_./:,@%+][-a-zA-Z0-9_./:,@%+=]*$' THEN word
                ELSE '''' || replace(word, '''', '''\''''') || '''' END
$$;

-- As before, and a command that it names can be run whatever the workspace's name is.
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
        hint := format('make it with: weir workspace set %s --plan free', :schema.shell_word(workspace));
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
