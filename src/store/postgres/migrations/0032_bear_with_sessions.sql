-- What the session, the database or the other requests of a set say must not change what a call means. Found wrong, and mended here:
--
-- 1. The views call functions with the rights of whoever reads them. These found their operators by his search path: who may create
-- operators in a schema of it (public, up to PostgreSQL 14) could have the reader run whatever he likes. And where EXECUTE is
-- withdrawn from PUBLIC by default, a right to the views was not enough to read them.
-- 2. With standard_conforming_strings = off the server reads backslashes in the text of a function in another way: every enqueue with
-- params failed, and so did the refusal of a workspace that is not there.
-- 3. In a set two requests with one execution_id were told by that id alone: where the first was refused (no such workspace, a key that
-- was used) and the second enqueued, the first was told that it is there; and a key that was used before could enqueue again.
-- 4. A refusal of params quoted all of them; and numbers that round to the greatest one of a double were refused.
-- 5. A release under REPEATABLE READ or SERIALIZABLE did not see that its workspace had been resumed, or a slot given back, since the
-- transaction began: it left the lane closed, and nobody else had a reason to open it.

-- --- 1. the views ---

-- As before, whatever the search path is. Expanded where it is called, which a setting of its own would prevent.
CREATE OR REPLACE FUNCTION :schema.time_of(microseconds bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ('epoch'::pg_catalog.timestamptz
            OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => (microseconds OPERATOR(pg_catalog./) 1000000)::double precision))
           OPERATOR(pg_catalog.+) ((microseconds OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond')
$$;

CREATE OR REPLACE FUNCTION :schema.store_time() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint
$$;

-- All functions that the views call; lane_reason() has no operators.
GRANT EXECUTE ON FUNCTION :schema.time_of(bigint), :schema.store_time(), :schema.lane_reason(boolean, boolean, boolean, boolean, boolean)
    TO PUBLIC;

-- --- 2. backslashes ---

ALTER FUNCTION :schema.shell_word(text) SET standard_conforming_strings = on;

-- As before, and with 4. A setting of its own would cost each call: text in dollars means the same in every session.
CREATE OR REPLACE FUNCTION :schema.params_problem(params text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    has_nul  constant boolean := strpos(params, $text$\u0000$text$) > 0;
    document jsonb;
    bare     text; -- without its strings
    kind     text;
    number   text;
BEGIN
    BEGIN
        -- An escaped NUL is JSON, but not in a key; jsonb cannot hold it: a character without a meaning stands for it.
        document := CASE WHEN has_nul
                         THEN regexp_replace(params, $text$(?<!\\)((?:\\\\)*)\\u0000$text$, $text$\1\\uF8FF$text$, 'g')
                         ELSE params END::jsonb;
    EXCEPTION
        WHEN statement_too_complex THEN
            RETURN 'JSON is nested deeper than 64 levels';
        WHEN data_exception THEN
            GET STACKED DIAGNOSTICS kind = PG_EXCEPTION_DETAIL;
            RETURN 'not JSON: ' || left(coalesce(nullif(kind, ''), SQLERRM), 200);
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
        WHERE strpos(k.key #>> '{}', E'\uF8FF') > 0) THEN
        RETURN 'not JSON: an object has a key with a NUL';
    END IF;
    bare := regexp_replace(params, $text$"(?:[^"\\]|\\.)*"$text$, '', 'g');
    IF length(bare) - length(replace(bare, ':', ''))
       <> (SELECT count(*) FROM jsonb_path_query(document, 'strict $.** ? (@.type() == "object").*.type()')) THEN
        RETURN 'not JSON: an object has a key twice';
    END IF;
    IF bare ~ '[0-9]{19}|[eE][+]?[0-9]{3}' THEN
        FOR number IN SELECT m[1] FROM regexp_matches(bare, '(-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?)', 'g') m LOOP
            IF number ~ '^-?[0-9]+$' AND number::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                RETURN 'not JSON: too big an integer';
            ELSIF abs(number::numeric) >= 1.7976931348623158079e308 THEN
                RETURN 'not JSON: too big a number';
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION :schema.read_request(request jsonb, OUT status text, OUT message text, OUT hint text, OUT workspace text,
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
        message := format('a request has no "%s"', left(key, 100));
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
        -- RFC 3339: the cast alone would take "yesterday", and a time without a zone by the zone of the session.
        IF request ->> 'run_at' !~* $text$^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z$text$ THEN
            RAISE SQLSTATE '22007';
        END IF;
        run_at := (request ->> 'run_at')::timestamptz;
        key := 'execution_id';
        execution_id := (request ->> 'execution_id')::uuid;
        IF :schema.execution_id_is_wrong(execution_id) THEN
            RAISE SQLSTATE '22P02';
        END IF;
    EXCEPTION WHEN data_exception THEN
        message := format('"%s" is not %s: %s', key,
                          CASE key WHEN 'priority' THEN 'a whole number' WHEN 'run_at' THEN 'a time' ELSE 'an execution id' END,
                          left(request ->> key, 100));
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

-- --- 3. one id twice ---

-- As before, but where ids are given a request is told by its place: of those with one id the first that is not refused is enqueued.
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
    keyed_in       integer[]; -- of these, the workspace
    new_keys       text[]; -- and the key
    chosen         integer[]; -- where ids are given: the place that each is enqueued for
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
            RETURNING execution_id, workspace_id, key
        )
        SELECT array_agg(f.execution_id), array_agg(f.workspace_id), array_agg(f.key) INTO keyed, keyed_in, new_keys FROM fresh f;
    END IF;
    IF any_given THEN
        chosen := ARRAY(SELECT min(u.place)
                        FROM unnest(ids, workspace_ids, definition_ids, idempotency_keys) WITH ORDINALITY
                             u(id, workspace_id, definition_id, key, place)
                        WHERE u.definition_id IS NOT NULL AND u.id NOT IN (SELECT unnest(known))
                          AND (u.key IS NULL
                               OR (u.id, u.workspace_id, u.key) IN (SELECT * FROM unnest(keyed, keyed_in, new_keys)))
                        GROUP BY u.id);
    END IF;

    -- 3. Items, params and one wake-up per lane.
    WITH request AS MATERIALIZED (
        SELECT DISTINCT ON (u.id)
               u.id, :schema.lane_id(u.group_id, u.workspace_id) AS lane_id, u.workspace_id, u.definition_id, u.priority, u.content,
               u.key, coalesce(u.run_at, now_us) AS run_at, coalesce(u.run_at, now_us) > now_us AS waits
        FROM unnest(ids, group_ids, workspace_ids, definition_ids, priorities, contents, idempotency_keys, run_ats) WITH ORDINALITY
             u(id, group_id, workspace_id, definition_id, priority, content, key, run_at, place)
        WHERE u.definition_id IS NOT NULL AND (u.key IS NULL OR u.id IN (SELECT unnest(keyed)))
          AND (NOT any_given OR u.place IN (SELECT unnest(chosen)))
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
                     AND (NOT any_given OR u.place IN (SELECT unnest(chosen))) AS is_new
              FROM unnest(ids, workspaces, workflows, contents, idempotency_keys, workspace_ids, definition_ids) WITH ORDINALITY
                   u(id, workspace, workflow, content, key, workspace_id, definition_id, place)) r
        LEFT JOIN LATERAL (
            SELECT e.* FROM :schema.enqueue_answer(r.id, r.workspace, r.workflow, r.content, r.key, r.workspace_id, r.definition_id) e
            WHERE r.is_new IS NOT TRUE OFFSET 0) a ON true -- OFFSET: not even called for what is new
        ORDER BY r.place;
END
$$;

-- --- 5. room that a release does not see ---

-- As before, but where the transaction may not see that the workspace has room, whoever folds the wake-up looks again.
CREATE OR REPLACE FUNCTION :schema.release_items(ids uuid[], actor text, why text) RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := :schema.store_time();
    waiting uuid[];
    lanes bigint[];
    counts bigint[];
    least_ranks bigint[];
BEGIN
    SELECT array_agg(l.id) INTO waiting FROM :schema.lock_items(ids) l WHERE l.phase = 1;
    IF waiting IS NOT NULL THEN
        WITH released AS (
            UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL WHERE q.id = ANY (waiting)
            RETURNING q.id, q.lane_id, q.rank
        ), event AS (
            INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason)
            SELECT r.id, now_us, 'release', actor, why FROM released r
        ), sums AS (
            SELECT r.lane_id, count(*) AS n, min(r.rank) AS least_rank FROM released r GROUP BY r.lane_id
        )
        SELECT array_agg(s.lane_id), array_agg(s.n), array_agg(s.least_rank) INTO lanes, counts, least_ranks FROM sums s;
        PERFORM :schema.change_lanes(lanes, counts, ARRAY(SELECT -c FROM unnest(counts) c), least_ranks);
        IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
            INSERT INTO :schema.lane_wakeups (lane_id) SELECT unnest(lanes);
        END IF;
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (waiting) THEN 'changed' ELSE 'refused' END, coalesce(q.status, h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id;
END
$$;
