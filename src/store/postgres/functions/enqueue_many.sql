-- For callers in SQL: enqueues the requests of an array, at most 10000, each an object with the names of enqueue()'s parameters as
-- keys. A refused request changes no other one. A row per request, by its place (from 1). Locks: those of enqueue_set().
CREATE OR REPLACE FUNCTION :schema.enqueue_many(requests jsonb)
RETURNS TABLE (place integer, code text, id uuid, duplicate boolean, message text, hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_us     constant bigint := :schema.store_time();
    own        constant integer[] := :schema.own_workspaces();
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
    traces     text[];
    subjects   text[]; -- business keys
    labels     text[];
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
            refused := refused || jsonb_build_object('place', read.nth, 'code', read.status, 'message', read.message,
                                                     'hint', read.hint);
            CONTINUE;
        END IF;
        IF own IS NOT NULL AND NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = read.workspace AND w.id = ANY (own)) THEN
            refused := refused || jsonb_build_object('place', read.nth, 'code', 'workspace_not_found',
                                                     'message', format('there is no workspace "%s"', read.workspace),
                                                     'hint', 'the role is granted its workspaces: grant_workspace()');
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
        traces := traces || read.traceparent;
        subjects := subjects || read.business_key;
        labels := labels || nullif(read.labels, '{}')::text;
    END LOOP;
    -- A search for the meant name costs more than an enqueue: only the first few get it.
    RETURN QUERY
        SELECT places[s.place], s.status, s.id, s.duplicate, s.message,
               CASE WHEN s.status <> 'ok' AND row_number() OVER (PARTITION BY s.status ORDER BY s.place) <= 3
                    THEN :schema.hint_with_nearest(s.status, workspaces[s.place], workflows[s.place], groups[s.place], s.hint)
                    ELSE s.hint END
        FROM :schema.enqueue_set(ids, given, workspaces, workflows, contents, keys, groups, priorities, run_ats, '{}', traces,
                                 subjects, labels) s
        UNION ALL
        SELECT (r.row ->> 'place')::integer, r.row ->> 'code', NULL, false, r.row ->> 'message', r.row ->> 'hint'
        FROM unnest(refused) r(row)
        ORDER BY 1;
END
$$;

REVOKE ALL ON FUNCTION :schema.enqueue_many(jsonb) FROM PUBLIC;
