-- One element of the array of enqueue_many(): its parts, or the refusal. Caller: enqueue_many().
CREATE OR REPLACE FUNCTION :schema.read_request(request jsonb, OUT status text, OUT message text, OUT hint text, OUT workspace text,
                                     OUT workflow text, OUT params text, OUT idempotency_key text, OUT priority integer,
                                     OUT run_at timestamptz, OUT executor_group text, OUT execution_id uuid,
                                     OUT traceparent text, OUT business_key text, OUT labels jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known constant text[] := ARRAY['workspace', 'workflow', 'params', 'idempotency_key', 'priority', 'run_at', 'executor_group',
                                   'execution_id', 'traceparent', 'business_key', 'labels'];
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
    FROM unnest(ARRAY['workspace', 'workflow', 'idempotency_key', 'run_at', 'executor_group', 'execution_id',
                      'traceparent', 'business_key']) n(name)
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
    traceparent := request ->> 'traceparent';
    business_key := request ->> 'business_key';
    labels := CASE WHEN jsonb_typeof(request -> 'labels') <> 'null' THEN request -> 'labels' END;
    SELECT p.status, p.message, p.hint INTO status, message, hint
    FROM :schema.request_problem(workspace, workflow, params, idempotency_key, priority, run_at, executor_group, traceparent,
                                 business_key, labels) p;
END
$$;
