-- The executor group where an enqueue that names none goes; NULL: the definition names none. It belongs to the version.
ALTER TABLE :schema.workflow_definitions ADD COLUMN executor_group text;

-- As before, and with that group; NULL = none.
CREATE FUNCTION :schema.publish_definition(definition_name text, owner text, text_of_it text, new_attempts_max integer,
                                           new_executor_group text,
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
    INSERT INTO :schema.workflow_definitions AS d (workspace_id, name, version, definition, attempts_max, created_at, executor_group)
    VALUES (owner_id, definition_name, coalesce(newest.version, 0) + 1, text_of_it, new_attempts_max, :schema.store_time(),
            new_executor_group)
    RETURNING d.id, d.version INTO definition_id, version;
END
$$;

-- As programs call it that know of no such group.
CREATE OR REPLACE FUNCTION :schema.publish_definition(definition_name text, owner text, text_of_it text, new_attempts_max integer,
                                                      OUT status text, OUT definition_id bigint, OUT version integer,
                                                      OUT unchanged boolean)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM :schema.publish_definition(definition_name, owner, text_of_it, new_attempts_max, NULL)
$$;

-- As before, but an executor group may be NULL. Then the item goes to the one of the very version that it is bound to, else to
-- that of default_groups, which may be shorter than the other arrays, else to 'default'.
CREATE FUNCTION :schema.enqueue_set(ids uuid[], given boolean[], workspaces text[], workflows text[], contents bytea[],
                                    idempotency_keys text[], executor_groups text[], priorities integer[], run_ats bigint[],
                                    default_groups text[])
RETURNS TABLE (place integer, status text, id uuid, duplicate boolean, message text, hint text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
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
                     (SELECT g.id FROM :schema.executor_groups g WHERE g.name = n.group_name) AS group_id
              FROM unnest(workspaces, workflows, executor_groups, default_groups) WITH ORDINALITY
                   r(workspace, workflow, group_name, default_group, place)
              CROSS JOIN LATERAL (SELECT (SELECT w.id FROM :schema.workspaces w WHERE w.name = r.workspace) OFFSET 0) a(workspace_id)
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

-- As programs call it that name a group for each item.
CREATE OR REPLACE FUNCTION :schema.enqueue_set(ids uuid[], given boolean[], workspaces text[], workflows text[], contents bytea[],
                                               idempotency_keys text[], executor_groups text[], priorities integer[],
                                               run_ats bigint[])
RETURNS TABLE (place integer, status text, id uuid, duplicate boolean, message text, hint text)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM :schema.enqueue_set(ids, given, workspaces, workflows, contents, idempotency_keys, executor_groups, priorities,
                                      run_ats, '{}')
$$;

-- Lists and acts on many go by the order of ids, so an id that is no UUIDv7 is refused.
CREATE FUNCTION :schema.execution_id_is_wrong(execution_id uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT substr(execution_id::text, 15, 1) <> '7'
$$;

-- As before, with the definition's group, and for such ids only.
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
    SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO status, id, duplicate, message, hint
    FROM :schema.enqueue_set(ARRAY[coalesce(execution_id, :schema.make_id(:schema.store_time(), 0))], ARRAY[execution_id IS NOT NULL],
                             ARRAY[workspace], ARRAY[workflow], ARRAY[convert_to(nullif(params, '{}'), 'UTF8')],
                             ARRAY[idempotency_key], ARRAY[executor_group], ARRAY[priority],
                             ARRAY[:schema.microseconds_of(run_at)], '{}') s;
    IF status IN ('workspace_not_found', 'workflow_not_found') THEN
        hint := coalesce('did you mean "' || :schema.nearest_name(status, workspace, workflow) || '"?', hint);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION :schema.enqueue_many(requests jsonb)
RETURNS TABLE (place integer, status text, id uuid, duplicate boolean, message text, hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_us     constant bigint := :schema.store_time();
    read       record;
    places     integer[];
    ids        uuid[];
    given      boolean[];
    workspaces text[];
    workflows  text[];
    contents   bytea[];
    keys       text[];
    groups     text[];
    priorities integer[];
    run_ats    bigint[];
    refused    jsonb[];
BEGIN
    IF jsonb_typeof(requests) IS DISTINCT FROM 'array' THEN
        PERFORM :schema.refuse('invalid_argument', 'requests are an array', 'for example [{"workspace": "acme", "workflow": "onboard"}]');
    ELSIF jsonb_array_length(requests) > 10000 THEN
        PERFORM :schema.refuse('invalid_argument', format('%s requests are more than the 10000 of one set',
                                                          jsonb_array_length(requests)), 'enqueue them in several sets');
    END IF;
    FOR read IN SELECT e.nth, r.* FROM jsonb_array_elements(requests) WITH ORDINALITY e(request, nth)
                CROSS JOIN LATERAL :schema.read_request(e.request) r ORDER BY e.nth LOOP
        IF read.status IS NOT NULL THEN
            refused := refused || jsonb_build_object('place', read.nth, 'status', read.status, 'message', read.message,
                                                     'hint', read.hint);
            CONTINUE;
        END IF;
        places := places || read.nth::integer;
        ids := ids || coalesce(read.execution_id, :schema.make_id(now_us, read.nth));
        given := given || (read.execution_id IS NOT NULL);
        workspaces := workspaces || read.workspace;
        workflows := workflows || read.workflow;
        contents := contents || convert_to(nullif(read.params, '{}'), 'UTF8');
        keys := keys || read.idempotency_key;
        groups := groups || read.executor_group;
        priorities := priorities || read.priority;
        run_ats := run_ats || :schema.microseconds_of(read.run_at);
    END LOOP;
    -- Looking for what was meant costs more than an enqueue: only the first few get it.
    RETURN QUERY
        SELECT places[s.place], s.status, s.id, s.duplicate, s.message,
               CASE WHEN s.status IN ('workspace_not_found', 'workflow_not_found')
                         AND row_number() OVER (PARTITION BY s.status ORDER BY s.place) <= 3
                    THEN coalesce('did you mean "' || :schema.nearest_name(s.status, workspaces[s.place], workflows[s.place]) || '"?',
                                  s.hint)
                    ELSE s.hint END
        FROM :schema.enqueue_set(ids, given, workspaces, workflows, contents, keys, groups, priorities, run_ats, '{}') s
        UNION ALL
        SELECT (r.row ->> 'place')::integer, r.row ->> 'status', NULL, false, r.row ->> 'message', r.row ->> 'hint'
        FROM unnest(refused) r(row)
        ORDER BY 1;
END
$$;
