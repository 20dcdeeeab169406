-- Whether a request is well-formed: status NULL, or the refusal with the message of the library (src/store/enqueue_request.c). Callers:
-- try_enqueue(), read_request(). The library checks its own requests before it calls enqueue_set() or enqueue_one().
CREATE OR REPLACE FUNCTION :schema.request_problem(workspace text, workflow text, params text, idempotency_key text, priority integer,
                                        run_at timestamptz, executor_group text, traceparent text, business_key text,
                                        labels jsonb,
                                        OUT status text, OUT message text, OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT 'invalid_argument', n.what || CASE WHEN coalesce(n.value, '') = '' THEN ' is missing' ELSE ' is too long' END,
           CASE WHEN coalesce(n.value, '') <> '' THEN format('at most %s bytes', n.most) END
    INTO status, message, hint
    FROM (VALUES (1, 'the workspace''s name', workspace, 128, true), (2, 'the workflow''s name', workflow, 64, true),
                 (3, 'the idempotency key', idempotency_key, 255, false),
                 (4, 'the executor group''s name', executor_group, 64, false),
                 (5, 'the business key', business_key, 255, false)) n(place, what, value, most, needed)
    WHERE (n.needed OR n.value IS NOT NULL) AND (coalesce(n.value, '') = '' OR octet_length(n.value) > n.most)
    ORDER BY n.place LIMIT 1;
    IF status IS NOT NULL THEN
        RETURN;
    END IF;
    IF priority IS NULL OR priority NOT BETWEEN -100 AND 100 THEN
        status := 'invalid_argument';
        message := format('priority %s is outside of -100 to 100', coalesce(priority::text, 'NULL'));
    ELSIF starts_with(idempotency_key, 'hook/') OR starts_with(idempotency_key, 'schedule/') THEN
        status := 'invalid_argument';
        message := CASE WHEN starts_with(idempotency_key, 'hook/')
                        THEN 'idempotency keys that begin with "hook/" are those of hooks'
                        ELSE 'idempotency keys that begin with "schedule/" are those of schedules' END;
        hint := 'begin the key with another word';
    ELSIF run_at < 'epoch' THEN
        status := 'invalid_argument';
        message := 'run_at is before 1970';
    ELSIF run_at = 'infinity' THEN
        status := 'invalid_argument';
        message := 'run_at never comes';
    ELSIF run_at >= '10000-01-01 00:00:00+00' THEN
        status := 'invalid_argument';
        message := 'run_at is after the year 9999';
    ELSIF traceparent !~ $text$^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z$text$ THEN
        status := 'invalid_argument';
        message := format('"%s" is no traceparent of version 00', left(traceparent, 100));
        hint := 'for example 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    ELSIF labels IS NOT NULL AND (:schema.labels_problem(labels)).message IS NOT NULL THEN
        status := 'invalid_argument';
        SELECT p.message, p.hint INTO message, hint FROM :schema.labels_problem(labels) p;
    ELSIF octet_length(params) > 1048576 THEN
        status := 'params_too_large';
        message := format('params are %s bytes, the limit is 1048576', octet_length(params));
        hint := 'store the data elsewhere and pass a reference to it';
    ELSIF params <> '{}' THEN
        message := :schema.json_problem(params, true);
        IF message IS NOT NULL THEN
            status := 'params_invalid';
            message := CASE WHEN message LIKE '%not an object' THEN 'params are ' ELSE 'params: ' END || message;
            hint := 'params are a JSON object, for example {"customer": 42}';
        END IF;
    END IF;
END
$$;
