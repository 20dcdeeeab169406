-- What the library refuses is refused in SQL as well: a time that RFC 3339 cannot tell, and an id that is no UUIDv7, after which lists
-- and acts on many would go wrong, because they go by the order of ids.

-- As before, but for the last year.
CREATE OR REPLACE FUNCTION :schema.request_problem(workspace text, workflow text, params text, idempotency_key text, priority integer,
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
    ELSIF run_at >= '10000-01-01 00:00:00+00' THEN
        status := 'invalid_argument';
        message := 'run_at is after the year 9999';
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

-- As before, but for the form of a time and the version of an id.
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
        -- RFC 3339: the cast alone would take "yesterday", and a time without a zone by the zone of the session.
        IF request ->> 'run_at' !~* '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$' THEN
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

-- As before, but what has completed cannot be retried.
CREATE OR REPLACE FUNCTION :schema.release(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    SELECT a.outcome, a.detail INTO act FROM :schema.release_items(ARRAY[execution_id], session_user, reason) a;
    IF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
                                   CASE WHEN act.detail IN ('PENDING', 'CLAIMED', 'DISPATCHED')
                                        THEN 'only one that waits for a time can be released'
                                        WHEN act.detail = 'COMPLETED' THEN 'it has ended'
                                        ELSE 'it has ended; weir retry runs it again' END);
    END IF;
    PERFORM :schema.notify_group_of(execution_id);
END
$$;
