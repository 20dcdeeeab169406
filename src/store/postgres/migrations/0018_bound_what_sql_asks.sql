-- What is asked for by SQL is bounded: a reason, and what a refusal quotes of it. What is missing is said to be missing, and a limit is
-- told with its number. And "did you mean" costs milliseconds, not seconds, where there are many workspaces.

-- Edits of one letter between two words, a swap counts one; more than `most` when there are more.
CREATE FUNCTION :schema.edit_distance(a text, b text, most integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    older integer[];
    last  integer[];
    now   integer[];
    best  integer;
    least_of_row integer;
BEGIN
    -- What both begin and end with is nothing to edit; of names that a program made that is nearly all.
    WHILE a <> '' AND left(a, 1) = left(b, 1) LOOP
        a := substr(a, 2);
        b := substr(b, 2);
    END LOOP;
    WHILE a <> '' AND right(a, 1) = right(b, 1) LOOP
        a := left(a, -1);
        b := left(b, -1);
    END LOOP;
    IF abs(length(a) - length(b)) > most THEN
        RETURN most + 1;
    END IF;
    last := ARRAY(SELECT generate_series(0, length(b)));
    FOR i IN 1 .. length(a) LOOP
        now := ARRAY[i];
        least_of_row := i;
        FOR j IN 1 .. length(b) LOOP
            best := least(last[j] + CASE WHEN substr(a, i, 1) = substr(b, j, 1) THEN 0 ELSE 1 END, last[j + 1] + 1, now[j] + 1);
            IF i > 1 AND j > 1 AND substr(a, i, 1) = substr(b, j - 1, 1) AND substr(a, i - 1, 1) = substr(b, j, 1) THEN
                best := least(best, older[j - 1] + 1);
            END IF;
            now := now || best;
            least_of_row := least(least_of_row, best);
        END LOOP;
        -- A swap reaches over one row, so it alone may be less than the least of two rows.
        IF least_of_row > most + 1 THEN
            RETURN most + 1;
        END IF;
        older := last;
        last := now;
    END LOOP;
    RETURN last[length(b) + 1];
END
$$;

-- As before: the nearest of the names, the first of several, when it is near enough to be what was meant (src/base/text.c).
CREATE OR REPLACE FUNCTION :schema.nearest(word text, names text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most     integer := least(length(word) / 3 + 1, length(word) - 1);
    distance integer;
    found_one text;
    name     text;
BEGIN
    IF length(word) > 63 THEN
        RETURN NULL;
    END IF;
    FOREACH name IN ARRAY names LOOP
        IF length(name) BETWEEN 1 AND 63 AND abs(length(name) - length(word)) <= most THEN
            distance := :schema.edit_distance(word, name, most);
            IF distance <= most THEN
                found_one := name;
                most := distance - 1;
            END IF;
        END IF;
    END LOOP;
    RETURN found_one;
END
$$;

DROP FUNCTION :schema.edit_distance(text, text);

-- The claim before 0008 called it; its nodes call claim(), which has not since.
DROP FUNCTION :schema.lock_ready_lanes(text, bigint, integer);

-- A workspace that is not there, or was not named.
CREATE OR REPLACE FUNCTION :schema.refuse_workspace(workspace text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(workspace, '') = '' THEN
        PERFORM :schema.refuse('invalid_argument', 'the workspace''s name is missing', NULL);
    ELSIF octet_length(workspace) > 128 THEN
        PERFORM :schema.refuse('invalid_argument', 'the workspace''s name is too long', 'at most 128 bytes');
    END IF;
    PERFORM :schema.refuse('workspace_not_found', format('there is no workspace "%s"', workspace),
                           coalesce('did you mean "' || :schema.nearest_name('workspace_not_found', workspace, NULL) || '"?',
                                    'weir workspace list shows them; weir workspace set makes one'));
END
$$;

-- What an act needs, and what it may say.
CREATE FUNCTION :schema.check_act(execution_id uuid, reason text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF execution_id IS NULL THEN
        PERFORM :schema.refuse('invalid_argument', 'the execution''s id is missing', NULL);
    ELSIF octet_length(reason) > 2048 THEN
        PERFORM :schema.refuse('invalid_argument', 'the reason is too long', 'at most 2048 bytes');
    END IF;
END
$$;

-- The acts as before, but for this.
CREATE OR REPLACE FUNCTION :schema.cancel(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    SELECT a.outcome, a.detail INTO act FROM :schema.cancel_items(ARRAY[execution_id], session_user, reason) a;
    IF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail, 'it has ended and cannot be cancelled');
    END IF;
    PERFORM :schema.notify_group_of(execution_id);
END
$$;

CREATE OR REPLACE FUNCTION :schema.release(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
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

CREATE OR REPLACE FUNCTION :schema.retry(execution_id uuid, reason text DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id constant uuid := :schema.make_id(:schema.store_time(), 0);
    act    record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    SELECT a.outcome, a.detail INTO act FROM :schema.retry_items(ARRAY[execution_id], ARRAY[new_id], session_user, reason) a;
    IF act.outcome = 'retried' THEN
        PERFORM :schema.refuse('conflict', format('execution %s is retried: it was retried already, as %s', execution_id, act.detail),
                               NULL);
    ELSIF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
                                   CASE WHEN act.detail = 'COMPLETED' THEN 'only a FAILED or CANCELLED one can be retried'
                                        ELSE 'it has not ended' END);
    END IF;
    PERFORM :schema.notify_group_of(new_id);
    RETURN new_id;
END
$$;

-- As before, but for a missing id.
CREATE OR REPLACE FUNCTION :schema.why(execution_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer jsonb;
BEGIN
    PERFORM :schema.check_act(execution_id, NULL);
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

-- As before, with the limits.
CREATE OR REPLACE FUNCTION :schema.request_problem(workspace text, workflow text, params text, idempotency_key text, priority integer,
                                        run_at timestamptz, executor_group text,
                                        OUT status text, OUT message text, OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT 'invalid_argument', n.what || CASE WHEN coalesce(n.value, '') = '' THEN ' is missing' ELSE ' is too long' END,
           CASE WHEN coalesce(n.value, '') <> '' THEN format('at most %s bytes', n.most) END
    INTO status, message, hint
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

-- As before, but what it quotes is bounded.
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
