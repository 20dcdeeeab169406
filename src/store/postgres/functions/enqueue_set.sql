-- Enqueues a set in the transaction of the caller. The arrays have one element per request, which is well-formed (request_problem()).
--   ids, given      of the executions; given: another call may have used this id
--   contents        params as bytes; NULL = {}
--   executor_groups NULL = the definition's, else that of default_groups (may be shorter than the other arrays), else 'default'
--   run_ats         microseconds; NULL = now
--   traceparents, business_keys, labels  NULL = none; may be shorter than the other arrays. labels: JSON objects of texts
--   only_of_all     the workflows are those without an owner, also if the workspace has its own of the name.
--   is_bounded      whether max_pending of the workspaces holds
-- Returns a row per request, by its place (from 1): 'ok', or the refusal of this request alone.
--
-- 1. resolve_names() turns names into ids, and makes missing groups that no request named itself.
-- 2. Given ids that are present already are found, so that a repeated request is a duplicate.
-- 3. Idempotency keys are inserted in the order of the keys, so that two sets cannot wait for each other. A key that is present keeps its
--    execution. Of several requests with one key or one id, the first that is not refused is enqueued.
--    limit_pending() leaves out those for which their workspace has no room.
-- 4. insert_items() inserts the items in the order of their ids, with their params and one row of news.
-- 5. A given id may have lived and ended between steps 2 and 4: undo_ended_items() deletes such an item again.
-- 6. The commit wakes the scheduler. enqueue_answer() answers each request that was not inserted; it reads rows that other transactions
--    have committed meanwhile.
--
-- Nothing here ends the caller's transaction: a refusal is a row. Sets are matched by hashed subplans and by place, never by joins: the
-- cost must not be the square of the number of requests, for any estimate of the planner. The plans are cached, because making them costs
-- more than running them.
-- Locks: a long transaction of a caller makes other sessions wait in three cases only. They wait for the same idempotency key of a
-- workspace or the same given id, and for a default group that neither a node nor a definition has named. A large set for a workspace with
-- max_pending waits for other large ones (pending_room()). Callers: enqueue_one(), enqueue_many(), start_children(), enqueue_set
-- (queries/enqueue.sql).
CREATE OR REPLACE FUNCTION :schema.enqueue_set(ids uuid[], given boolean[], workspaces text[], workflows text[], contents bytea[],
                                               idempotency_keys text[], executor_groups text[], priorities integer[], run_ats bigint[],
                                               default_groups text[], traceparents text[], business_keys text[] DEFAULT NULL,
                                               labels text[] DEFAULT NULL, only_of_all boolean DEFAULT false,
                                               is_bounded boolean DEFAULT true)
RETURNS TABLE (place integer, status text, id uuid, duplicate boolean, message text, hint text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now_us         constant bigint := :schema.store_time();
    any_given      constant boolean := coalesce(true = ANY (given), false);
    any_key        constant boolean := cardinality(array_remove(idempotency_keys, NULL)) > 0;
    workspace_ids  integer[];
    definition_ids bigint[];
    group_ids      integer[];
    demands        integer[];
    known          uuid[]; -- given ids that are there already
    keyed          uuid[]; -- ids with a new idempotency key
    keyed_in       integer[]; -- of these, the workspace
    new_keys       text[]; -- and the key
    wanted_ids     bigint[]; -- definition_ids as they were found; those of requests with an unknown group are NULL from then on
    chosen         integer[]; -- the places that are enqueued; NULL = all that have a definition
    full_ids       integer[]; -- workspaces without room for all of their requests; NULL = none
    inserted       uuid[];
BEGIN
    SELECT r.workspace_ids, r.definition_ids, r.group_ids, r.demands INTO workspace_ids, definition_ids, group_ids, demands
    FROM :schema.resolve_names(workspaces, workflows, executor_groups, default_groups, only_of_all) r;
    wanted_ids := definition_ids;
    IF array_position(group_ids, NULL) IS NOT NULL THEN
        definition_ids := ARRAY(SELECT CASE WHEN u.group_id IS NOT NULL THEN u.definition_id END
                                FROM unnest(group_ids, definition_ids) WITH ORDINALITY u (group_id, definition_id, place)
                                ORDER BY u.place);
    END IF;
    IF any_given THEN
        known := ARRAY(SELECT u.id FROM unnest(ids, given) u (id, given)
                       WHERE u.given AND (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = u.id)
                                          OR EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = u.id)));
    END IF;
    IF any_key THEN
        -- Inserted in the order of the keys, so that two sets cannot wait for each other.
        WITH fresh AS (
            INSERT INTO :schema.idempotency_keys (workspace_id, key, execution_id)
            SELECT DISTINCT ON (u.workspace_id, u.key COLLATE "C") u.workspace_id, u.key, u.id
            FROM unnest(workspace_ids, idempotency_keys, ids, definition_ids) WITH ORDINALITY
                 u (workspace_id, key, id, definition_id, place)
            WHERE u.key IS NOT NULL AND u.definition_id IS NOT NULL AND (NOT any_given OR u.id NOT IN (SELECT unnest(known)))
            ORDER BY u.workspace_id, u.key COLLATE "C", u.place
            ON CONFLICT DO NOTHING
            RETURNING execution_id, workspace_id, key
        )
        SELECT array_agg(f.execution_id), array_agg(f.workspace_id), array_agg(f.key) INTO keyed, keyed_in, new_keys FROM fresh f;
    END IF;
    IF any_given OR any_key THEN
        chosen := ARRAY(SELECT min(u.place)
                        FROM unnest(ids, workspace_ids, definition_ids, idempotency_keys) WITH ORDINALITY
                             u (id, workspace_id, definition_id, key, place)
                        WHERE u.definition_id IS NOT NULL AND (NOT any_given OR u.id NOT IN (SELECT unnest(known)))
                          AND (u.key IS NULL
                               OR (u.id, u.workspace_id, u.key) IN (SELECT * FROM unnest(keyed, keyed_in, new_keys)))
                        GROUP BY u.id);
    END IF;
    IF is_bounded AND EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = ANY (workspace_ids) AND w.pending_max > 0) THEN
        SELECT l.chosen, l.full_ids INTO chosen, full_ids FROM :schema.limit_pending(workspace_ids, definition_ids, chosen) l;
    END IF;
    inserted := :schema.insert_items(now_us, ids, workspace_ids, definition_ids, group_ids, demands, priorities, contents,
                                     idempotency_keys, run_ats, traceparents, chosen);
    IF any_given AND inserted IS NOT NULL THEN
        inserted := :schema.undo_ended_items(now_us, inserted);
    END IF;
    IF inserted IS NOT NULL THEN
        PERFORM :schema.add_labels(inserted, chosen, ids, workspace_ids, definition_ids, business_keys, labels);
        PERFORM :schema.notify_news();
        PERFORM :schema.write_stream(now_us, '{enqueue}', inserted) WHERE :schema.stream_is_read(now_us);
    END IF;
    IF cardinality(inserted) = cardinality(ids) THEN
        RETURN QUERY SELECT u.place::integer, 'ok', u.id, false, NULL, NULL FROM unnest(ids) WITH ORDINALITY u (id, place) ORDER BY u.place;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT r.place, coalesce(a.status, 'ok'), coalesce(a.id, CASE WHEN r.is_new THEN r.id END), coalesce(a.duplicate, false),
               a.message, a.hint
        FROM (SELECT u.place::integer, u.id, u.workspace, u.workflow, u.content, u.key, u.workspace_id, u.definition_id,
                     CASE WHEN u.group_id IS NULL THEN u.executor_group END AS unknown_group,
                     u.id IN (SELECT unnest(inserted)) AND (chosen IS NULL OR u.place IN (SELECT unnest(chosen))) AS is_new
              FROM unnest(ids, workspaces, workflows, contents, idempotency_keys, workspace_ids, wanted_ids, group_ids,
                          executor_groups) WITH ORDINALITY
                   u (id, workspace, workflow, content, key, workspace_id, definition_id, group_id, executor_group, place)) r
        LEFT JOIN LATERAL (
            SELECT e.* FROM :schema.enqueue_answer(r.id, r.workspace, r.workflow, r.content, r.key, r.workspace_id, r.definition_id,
                                                   r.unknown_group, r.workspace_id = ANY (full_ids)) e
            WHERE r.is_new IS NOT TRUE OFFSET 0) a ON true -- OFFSET: it is not even called for new ones
        ORDER BY r.place;
END
$$;
