-- Enqueueing for any language, inside of the caller's own transaction (docs/sql.md).
--
-- What a caller may call runs with the rights of the schema's owner (SECURITY DEFINER), so that a role needs EXECUTE on it and
-- nothing else; no object is found by a search path. Everything else runs with the caller's own rights.
--
-- A long transaction of a caller blocks nobody: an enqueue only inserts. Two callers meet in two places, and there the second
-- waits for the first one's end: the very same idempotency key of a workspace (or the very same given id), and a new executor
-- group that both are the first to name.
-- What a caller may pass as params, checked as the library checks it (src/base/json.c): NULL when all is well, else the problem
-- in words. jsonb alone would not do: it drops a key that is there twice and takes numbers that no node can read.
CREATE FUNCTION :schema.params_problem(params text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    has_nul  constant boolean := strpos(params, '\u0000') > 0;
    document jsonb;
    bare     text; -- without its strings
    kind     text;
    number   text;
BEGIN
    BEGIN
        -- An escaped NUL is JSON, but not in a key; jsonb cannot hold it: a character without a meaning stands for it.
        document := CASE WHEN has_nul THEN regexp_replace(params, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\uF8FF', 'g') ELSE params END::jsonb;
    EXCEPTION
        WHEN statement_too_complex THEN
            RETURN 'JSON is nested deeper than 64 levels';
        WHEN data_exception THEN
            GET STACKED DIAGNOSTICS kind = PG_EXCEPTION_DETAIL;
            RETURN 'not JSON: ' || coalesce(nullif(kind, ''), SQLERRM);
    END;
    kind := jsonb_typeof(document);
    IF kind <> 'object' THEN
        kind := CASE WHEN kind = 'number' AND btrim(params, E' \t\n\r') ~ '^-?[0-9]+$' THEN 'integer' ELSE kind END;
        RETURN format('%s %s, not an object', CASE WHEN left(kind, 1) IN ('a', 'i', 'o') THEN 'an' ELSE 'a' END, kind);
    END IF;
    IF jsonb_path_exists(document, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")') THEN
        RETURN 'JSON is nested deeper than 64 levels';
    END IF;
    IF has_nul AND EXISTS (
        SELECT 1 FROM jsonb_path_query(document, 'strict $.** ? (@.type() == "object").keyvalue().key') k(key)
        WHERE strpos(k.key #>> '{}', U&'\F8FF') > 0) THEN
        RETURN 'not JSON: an object has a key with a NUL';
    END IF;
    bare := regexp_replace(params, '"(?:[^"\\]|\\.)*"', '', 'g');
    IF length(bare) - length(replace(bare, ':', ''))
       <> (SELECT count(*) FROM jsonb_path_query(document, 'strict $.** ? (@.type() == "object").*.type()')) THEN
        RETURN 'not JSON: an object has a key twice';
    END IF;
    IF bare ~ '[0-9]{19}|[eE][+]?[0-9]{3}' THEN
        FOR number IN SELECT m[1] FROM regexp_matches(bare, '(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)', 'g') m LOOP
            IF number ~ '^-?[0-9]+$' AND number::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                RETURN 'not JSON: too big an integer';
            ELSIF abs(number::numeric) > 1.7976931348623157e308 THEN
                RETURN 'not JSON: too big a number';
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END
$$;
-- Edits of one letter between two words, a swap counts one; for "did you mean".
CREATE FUNCTION :schema.edit_distance(a text, b text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    older integer[];
    last  integer[] := ARRAY(SELECT generate_series(0, length(b)));
    now   integer[];
    best  integer;
BEGIN
    FOR i IN 1 .. length(a) LOOP
        now := ARRAY[i];
        FOR j IN 1 .. length(b) LOOP
            best := least(last[j] + CASE WHEN substr(a, i, 1) = substr(b, j, 1) THEN 0 ELSE 1 END, last[j + 1] + 1, now[j] + 1);
            IF i > 1 AND j > 1 AND substr(a, i, 1) = substr(b, j - 1, 1) AND substr(a, i - 1, 1) = substr(b, j, 1) THEN
                best := least(best, older[j - 1] + 1);
            END IF;
            now := now || best;
        END LOOP;
        older := last;
        last := now;
    END LOOP;
    RETURN last[length(b) + 1];
END
$$;

-- The nearest of the names, when it is near enough to be what was meant (src/base/text.c).
CREATE FUNCTION :schema.nearest(word text, names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT n.name
    FROM (SELECT c.name, c.place, :schema.edit_distance(word, c.name) AS distance
          FROM unnest(names) WITH ORDINALITY c(name, place)
          WHERE length(word) BETWEEN 1 AND 63 AND length(c.name) BETWEEN 1 AND 63
            AND abs(length(c.name) - length(word)) < length(word) / 3 + 2) n
    WHERE n.distance < length(word) / 3 + 2 AND n.distance < length(word)
    ORDER BY n.distance, n.place LIMIT 1
$$;

-- "did you mean" for a name that is not there: of all workspaces, or of the workflows that the workspace may run.
CREATE FUNCTION :schema.nearest_name(status text, workspace text, workflow text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE status
        WHEN 'workspace_not_found' THEN
            :schema.nearest(workspace, ARRAY(SELECT w.name FROM :schema.workspaces w ORDER BY w.id LIMIT 1000))
        WHEN 'workflow_not_found' THEN
            :schema.nearest(workflow, ARRAY(
                SELECT DISTINCT d.name FROM :schema.workflow_definitions d
                WHERE d.workspace_id IN (0, (SELECT w.id FROM :schema.workspaces w WHERE w.name = workspace)) LIMIT 1000)) END
$$;

-- Wakes the nodes of a group when the transaction commits; PostgreSQL sends one notification however often it is called.
CREATE FUNCTION :schema.notify_work(executor_group text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_notify(:'schema', executor_group);
END
$$;

-- UUIDv7 (RFC 9562) of store time; `nth` keeps those of one call in their order. The 12 bits behind the milliseconds are the
-- fraction of the millisecond.
CREATE FUNCTION :schema.make_id(microseconds bigint, nth bigint) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ticks constant bigint := microseconds / 1000 * 4096 + microseconds % 1000 * 4096 / 1000 + nth;
    bytes bytea := overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(ticks >> 12) FROM 3 FOR 6) FROM 1);
BEGIN
    bytes := set_byte(set_byte(bytes, 6, 112 | ((ticks >> 8) & 15)::integer), 7, (ticks & 255)::integer);
    RETURN encode(bytes, 'hex')::uuid;
END
$$;

-- The place of an item in its lane (item_rank() in queue/item.h): its time, an hour ahead for each level of priority.
CREATE FUNCTION :schema.item_rank(run_at bigint, priority integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT least(run_at, 9223371676854775807) - priority * 3600000000
$$;

-- Whether a request is well-formed: status NULL, or the refusal in the words of the library (src/store/request.c).
CREATE FUNCTION :schema.request_problem(workspace text, workflow text, params text, idempotency_key text, priority integer,
                                        run_at timestamptz, executor_group text,
                                        OUT status text, OUT message text, OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT 'invalid_argument', n.what || CASE WHEN coalesce(n.value, '') = '' THEN ' is missing' ELSE ' is too long' END
    INTO status, message
    FROM (VALUES (1, 'the workspace''s name', workspace, 128, true), (2, 'the workflow''s name', workflow, 64, true),
                 (3, 'the idempotency key', idempotency_key, 255, false),
                 (4, 'the executor group''s name', executor_group, 64, false)) n(place, what, value, most, needed)
    WHERE (n.needed OR n.value IS NOT NULL) AND (coalesce(n.value, '') = '' OR octet_length(n.value) > n.most)
    ORDER BY n.place LIMIT 1;
    IF status IS NOT NULL THEN
        RETURN;
    END IF;
    IF priority IS NULL OR priority NOT BETWEEN -100 AND 100 THEN
        status := 'invalid_argument';
        message := format('priority %s is outside of -100 to 100', coalesce(priority::text, 'NULL'));
    ELSIF run_at < 'epoch' THEN
        status := 'invalid_argument';
        message := 'run_at is before 1970';
    ELSIF run_at = 'infinity' THEN
        status := 'invalid_argument';
        message := 'run_at never comes';
    ELSIF octet_length(params) > 1048576 THEN
        status := 'params_too_large';
        message := format('params are %s bytes, the limit is 1048576', octet_length(params));
        hint := 'store the data elsewhere and pass a reference to it';
    ELSIF params <> '{}' THEN
        message := :schema.params_problem(params);
        IF message IS NOT NULL THEN
            status := 'params_invalid';
            message := CASE WHEN message LIKE '%not an object' THEN 'params are ' ELSE 'params: ' END || message;
            hint := 'params are a JSON object, for example {"customer": 42}';
        END IF;
    END IF;
END
$$;

-- What became of a request that was not inserted, in the words of the library. Reads what was committed meanwhile.
CREATE FUNCTION :schema.enqueue_answer(request_id uuid, workspace text, workflow text, content bytea, idempotency_key text,
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

-- Enqueues a set; the arrays have one element per request, which is well-formed (request_problem). The one way into the queue:
-- the library's calls and all functions below come here.
--   ids        of the executions; `given` tells which of them the callers chose, so that they may be known already
--   contents   params as bytes; NULL = {}
--   run_ats    microseconds; NULL = now
-- A row per request, by its place (from 1): ok, or what refuses this request alone. Locks: see the top of this file.
-- Sets are matched by hashed subplans and by place, never by joins: whatever number of requests the planner expects, the cost
-- must not be its square. So the plans are made once per connection (force_generic_plan): making them costs more than running them.
CREATE FUNCTION :schema.enqueue_set(ids uuid[], given boolean[], workspaces text[], workflows text[], contents bytea[],
                                    idempotency_keys text[], executor_groups text[], priorities integer[], run_ats bigint[])
RETURNS TABLE (place integer, status text, id uuid, duplicate boolean, message text, hint text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    now_us         constant bigint := :schema.store_time();
    any_given      constant boolean := coalesce(true = ANY (given), false);
    workspace_ids  integer[];
    definition_ids bigint[];
    group_ids      integer[];
    known          uuid[]; -- given ids that are there already
    keyed          uuid[]; -- ids whose idempotency key is new
    inserted       uuid[];
BEGIN
    -- 1. Names to ids.
    LOOP
        SELECT array_agg(f.workspace_id), array_agg(f.definition_id), array_agg(f.group_id)
        INTO workspace_ids, definition_ids, group_ids
        FROM (SELECT a.workspace_id,
                     (SELECT d.id FROM :schema.workflow_definitions d -- its own before everybody's, the newest
                      WHERE d.name = r.workflow AND d.workspace_id IN (a.workspace_id, 0) AND a.workspace_id IS NOT NULL
                      ORDER BY d.workspace_id DESC, d.version DESC LIMIT 1) AS definition_id,
                     (SELECT g.id FROM :schema.executor_groups g WHERE g.name = r.group_name) AS group_id
              FROM unnest(workspaces, workflows, executor_groups) WITH ORDINALITY r(workspace, workflow, group_name, place)
              CROSS JOIN LATERAL (SELECT (SELECT w.id FROM :schema.workspaces w WHERE w.name = r.workspace) OFFSET 0) a(workspace_id)
              ORDER BY r.place) f;
        EXIT WHEN NOT EXISTS (SELECT 1 FROM unnest(group_ids, definition_ids) u(group_id, definition_id)
                              WHERE u.group_id IS NULL AND u.definition_id IS NOT NULL);
        INSERT INTO :schema.executor_groups (name)
        SELECT DISTINCT u.name COLLATE "C" FROM unnest(executor_groups, group_ids, definition_ids) u(name, group_id, definition_id)
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
        PERFORM :schema.notify_work(n.name) FROM (SELECT DISTINCT unnest(executor_groups)) n(name);
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

-- --- what callers use ---

-- As enqueue(), but a refusal is a row and no error: it leaves the caller's transaction as it was.
CREATE FUNCTION :schema.try_enqueue(workspace text, workflow text, params text DEFAULT NULL, idempotency_key text DEFAULT NULL,
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
    IF status IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO status, id, duplicate, message, hint
    FROM :schema.enqueue_set(ARRAY[coalesce(execution_id, :schema.make_id(:schema.store_time(), 0))], ARRAY[execution_id IS NOT NULL],
                             ARRAY[workspace], ARRAY[workflow], ARRAY[convert_to(nullif(params, '{}'), 'UTF8')],
                             ARRAY[idempotency_key], ARRAY[coalesce(executor_group, 'default')], ARRAY[priority],
                             ARRAY[:schema.microseconds_of(run_at)]) s;
    IF status IN ('workspace_not_found', 'workflow_not_found') THEN
        hint := coalesce('did you mean "' || :schema.nearest_name(status, workspace, workflow) || '"?', hint);
    END IF;
END
$$;

-- The SQLSTATE of a refusal: class WR, then the number of the status in include/weir/status.h (docs/sql.md lists them).
CREATE FUNCTION :schema.sqlstate_of(status text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE status
        WHEN 'invalid_argument' THEN 'WR002' WHEN 'params_invalid' THEN 'WR004' WHEN 'params_too_large' THEN 'WR005'
        WHEN 'not_found' THEN 'WR007' WHEN 'workspace_not_found' THEN 'WR008' WHEN 'workflow_not_found' THEN 'WR009'
        WHEN 'execution_not_found' THEN 'WR010' WHEN 'plan_not_found' THEN 'WR011' WHEN 'idempotency_key_reused' THEN 'WR012'
        WHEN 'conflict' THEN 'WR013' WHEN 'illegal_state' THEN 'WR014' WHEN 'workflow_of_another_workspace' THEN 'WR018'
        ELSE 'WR001' END
$$;

-- Raises a refusal: MESSAGE and HINT are the library's words, DETAIL is the name of the status.
CREATE FUNCTION :schema.refuse(status text, message text, hint text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = :schema.sqlstate_of(status), MESSAGE = message, DETAIL = status;
    END IF;
    RAISE EXCEPTION USING ERRCODE = :schema.sqlstate_of(status), MESSAGE = message, DETAIL = status, HINT = hint;
END
$$;

-- Enqueues one execution and returns its id; a known idempotency key is no error. params is a JSON object, kept byte for byte.
CREATE FUNCTION :schema.enqueue(workspace text, workflow text, params text DEFAULT NULL, idempotency_key text DEFAULT NULL,
                                priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                execution_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer record;
BEGIN
    SELECT * INTO answer FROM :schema.try_enqueue(workspace, workflow, params, idempotency_key, priority, run_at, executor_group,
                                                  execution_id);
    IF answer.status <> 'ok' THEN
        PERFORM :schema.refuse(answer.status, answer.message, answer.hint);
    END IF;
    RETURN answer.id;
END
$$;

-- The same for params that are jsonb or json already. params has no default here: a call without it means the first one.
CREATE FUNCTION :schema.enqueue(workspace text, workflow text, params jsonb, idempotency_key text DEFAULT NULL,
                                priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                execution_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.enqueue(workspace, workflow, params::text, idempotency_key, priority, run_at, executor_group, execution_id)
$$;

CREATE FUNCTION :schema.enqueue(workspace text, workflow text, params json, idempotency_key text DEFAULT NULL,
                                priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, executor_group text DEFAULT NULL,
                                execution_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.enqueue(workspace, workflow, params::text, idempotency_key, priority, run_at, executor_group, execution_id)
$$;

-- One element of enqueue_many(): its parts, or why it is none.
CREATE FUNCTION :schema.read_request(request jsonb, OUT status text, OUT message text, OUT hint text, OUT workspace text,
                                     OUT workflow text, OUT params text, OUT idempotency_key text, OUT priority integer,
                                     OUT run_at timestamptz, OUT executor_group text, OUT execution_id uuid)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known constant text[] := ARRAY['workspace', 'workflow', 'params', 'idempotency_key', 'priority', 'run_at', 'executor_group',
                                   'execution_id'];
    key   text;
BEGIN
    status := 'invalid_argument';
    IF jsonb_typeof(request) IS DISTINCT FROM 'object' THEN
        message := 'a request is an object';
        hint := 'for example {"workspace": "acme", "workflow": "onboard", "params": {"customer": 42}}';
        RETURN;
    END IF;
    SELECT k.name INTO key FROM jsonb_object_keys(request) k(name) WHERE k.name <> ALL (known) LIMIT 1;
    IF key IS NOT NULL THEN
        message := format('a request has no "%s"', key);
        hint := coalesce('did you mean "' || :schema.nearest(key, known) || '"?', 'it has ' || array_to_string(known, ', '));
        RETURN;
    END IF;
    SELECT n.name INTO key
    FROM unnest(ARRAY['workspace', 'workflow', 'idempotency_key', 'run_at', 'executor_group', 'execution_id']) n(name)
    WHERE jsonb_typeof(request -> n.name) NOT IN ('string', 'null') LIMIT 1;
    IF key IS NOT NULL OR jsonb_typeof(request -> 'priority') NOT IN ('number', 'null') THEN
        message := format('"%s" must be a %s', coalesce(key, 'priority'), CASE WHEN key IS NULL THEN 'number' ELSE 'string' END);
        RETURN;
    END IF;
    BEGIN
        key := 'priority';
        priority := coalesce(request ->> 'priority', '0')::integer;
        key := 'run_at';
        run_at := (request ->> 'run_at')::timestamptz;
        key := 'execution_id';
        execution_id := (request ->> 'execution_id')::uuid;
    EXCEPTION WHEN data_exception THEN
        message := format('"%s" is not %s: %s', key,
                          CASE key WHEN 'priority' THEN 'a whole number' WHEN 'run_at' THEN 'a time' ELSE 'an execution id' END,
                          request ->> key);
        hint := CASE key WHEN 'run_at' THEN 'for example 2030-01-31T12:00:00Z'
                         WHEN 'execution_id' THEN 'an id looks like 01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79' END;
        RETURN;
    END;
    workspace := request ->> 'workspace';
    workflow := request ->> 'workflow';
    params := CASE WHEN jsonb_typeof(request -> 'params') <> 'null' THEN (request -> 'params')::text END;
    idempotency_key := request ->> 'idempotency_key';
    executor_group := request ->> 'executor_group';
    SELECT p.status, p.message, p.hint INTO status, message, hint
    FROM :schema.request_problem(workspace, workflow, params, idempotency_key, priority, run_at, executor_group) p;
END
$$;

-- Enqueues the requests of an array, up to 10000, each an object with the names of enqueue()'s parameters as keys. A refused one
-- leaves the others alone: a row per request, by its place (from 1), tells what became of it.
CREATE FUNCTION :schema.enqueue_many(requests jsonb)
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
        groups := groups || coalesce(read.executor_group, 'default');
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
        FROM :schema.enqueue_set(ids, given, workspaces, workflows, contents, keys, groups, priorities, run_ats) s
        UNION ALL
        SELECT (r.row ->> 'place')::integer, r.row ->> 'status', NULL, false, r.row ->> 'message', r.row ->> 'hint'
        FROM unnest(refused) r(row)
        ORDER BY 1;
END
$$;

REVOKE ALL ON FUNCTION
    :schema.try_enqueue(text, text, text, text, integer, timestamptz, text, uuid),
    :schema.enqueue(text, text, text, text, integer, timestamptz, text, uuid),
    :schema.enqueue(text, text, jsonb, text, integer, timestamptz, text, uuid),
    :schema.enqueue(text, text, json, text, integer, timestamptz, text, uuid),
    :schema.enqueue_many(jsonb) FROM PUBLIC;
