-- Enqueues one request without arrays: the short way of most programs. It answers and stores exactly as enqueue_set() for a set of one.
--   new_id, given          the id; given: another call may have used it
--   content                params as bytes; NULL = {}
--   executor_group, default_group  see enqueue_set()
--   run_at                 microseconds; NULL = now
--   traceparent            NULL = none
--   business_key, labels   NULL = none; labels: a JSON object of texts
--   is_bounded             whether max_pending of the workspace holds
-- Returns status ('ok', or the name of a refusal), id, duplicate, message and hint.
--
-- 1. One query resolves the names.
-- 2. With an idempotency key its row is inserted first: of two calls with one key the second waits here for the first.
-- 3. The item is inserted. With a given id, an execution of this id that has ended meanwhile undoes the insert.
-- 4. Its params and one row of news follow in the same transaction, and the commit wakes the scheduler.
-- 5. A request that is not plain (an unknown name, or a key or id that is present) goes to enqueue_set(), which has the refusals and makes
--    missing groups. The row of step 2 is deleted before. If the workspace has no room,
--    enqueue_answer() has the refusal, or the execution of a given id.
-- Locks: those of enqueue_set(). Callers: try_enqueue(), enqueue_keyed(), enqueue_one
-- (queries/enqueue.sql).
CREATE OR REPLACE FUNCTION :schema.enqueue_one(new_id uuid, given boolean, workspace text, workflow text, content bytea,
                                               idempotency_key text, executor_group text, priority integer, run_at bigint,
                                               default_group text, traceparent text, business_key text DEFAULT NULL,
                                               labels text DEFAULT NULL, is_bounded boolean DEFAULT true,
                                               OUT status text, OUT id uuid,
                                               OUT duplicate boolean, OUT message text, OUT hint text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    run_at_past_most constant bigint := 86400000000; -- RUN_AT_PAST_MOST_US in queue/limits.h
    now_us    constant bigint := :schema.store_time();
    starts_at constant bigint := coalesce(run_at, now_us);
    waits     constant boolean := starts_at > now_us;
    item_rank constant bigint := :schema.item_rank(greatest(starts_at, now_us - run_at_past_most), enqueue_one.priority);
    wanted    record;
    is_plain  boolean;
    has_key   boolean := false;
BEGIN
    SELECT w.id AS workspace_id, w.pending_max, d.id AS definition_id, :schema.lane_id(g.id, w.id, d.demand) AS lane_id, d.has_labels
    INTO wanted
    FROM :schema.workspaces w
    CROSS JOIN LATERAL (SELECT v.id, v.executor_group, v.demand, v.state, v.labels IS NOT NULL AS has_labels
                        FROM :schema.workflow_definitions v
                        WHERE v.name = enqueue_one.workflow AND v.workspace_id IN (w.id, 0) AND v.state <> 2
                        ORDER BY v.workspace_id DESC, v.version DESC LIMIT 1) d
    JOIN :schema.executor_groups g ON g.name = coalesce(enqueue_one.executor_group, d.executor_group, default_group, 'default')
    WHERE w.name = enqueue_one.workspace AND d.state = 0;
    is_plain := FOUND;
    IF is_plain AND idempotency_key IS NOT NULL THEN
        INSERT INTO :schema.idempotency_keys (workspace_id, key, execution_id)
        VALUES (wanted.workspace_id, enqueue_one.idempotency_key, new_id) ON CONFLICT DO NOTHING;
        is_plain := FOUND;
        has_key := FOUND;
    END IF;
    IF is_plain AND is_bounded AND wanted.pending_max > 0
       AND :schema.pending_room(wanted.workspace_id, wanted.pending_max, 1) < 1 THEN
        SELECT a.status, a.id, a.duplicate, a.message, a.hint INTO status, id, duplicate, message, hint
        FROM :schema.enqueue_answer(new_id, workspace, workflow, content, idempotency_key, wanted.workspace_id, wanted.definition_id,
                                    NULL, true) a;
        RETURN;
    END IF;
    IF is_plain THEN
        INSERT INTO :schema.workflow_execution_queue
            (id, lane_id, workspace_id, definition_id, status, phase, rank, priority, run_at, due_at, has_params, created_at,
             idempotency_key, traceparent)
        VALUES (new_id, wanted.lane_id, wanted.workspace_id, wanted.definition_id, 'PENDING', CASE WHEN waits THEN 1 ELSE 0 END,
                item_rank, enqueue_one.priority, starts_at, CASE WHEN waits THEN starts_at END, content IS NOT NULL, now_us,
                enqueue_one.idempotency_key, enqueue_one.traceparent)
        ON CONFLICT DO NOTHING;
        is_plain := FOUND;
        IF is_plain AND given THEN
            PERFORM :schema.refuse_unseen_ends(ARRAY[new_id], '{}');
            IF EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = new_id) THEN
                DELETE FROM :schema.workflow_execution_queue q WHERE q.id = new_id;
                is_plain := false;
            END IF;
        END IF;
    END IF;
    IF is_plain THEN
        IF content IS NOT NULL THEN
            INSERT INTO :schema.execution_params (id, params) VALUES (new_id, content) ON CONFLICT DO NOTHING;
        END IF;
        IF business_key IS NOT NULL OR labels IS NOT NULL OR wanted.has_labels THEN
            PERFORM :schema.add_labels(ARRAY[new_id], NULL, ARRAY[new_id], ARRAY[wanted.workspace_id], ARRAY[wanted.definition_id],
                                       ARRAY[business_key], ARRAY[labels]);
        END IF;
        INSERT INTO :schema.news (at, kind, lanes, runnable, waiting, least_rank, due)
        VALUES (now_us, 1, ARRAY[wanted.lane_id], ARRAY[CASE WHEN waits THEN 0 ELSE 1 END], CASE WHEN waits THEN ARRAY[1] END,
                ARRAY[CASE WHEN NOT waits THEN item_rank END], CASE WHEN waits THEN starts_at END);
        PERFORM :schema.notify_news();
        IF :schema.stream_is_read(now_us) THEN
            PERFORM :schema.write_stream(now_us, '{enqueue}', ARRAY[new_id]);
        END IF;
        status := 'ok';
        id := new_id;
        duplicate := false;
        RETURN;
    END IF;
    IF has_key THEN
        DELETE FROM :schema.idempotency_keys k
        WHERE k.workspace_id = wanted.workspace_id AND k.key = enqueue_one.idempotency_key AND k.execution_id = new_id;
    END IF;
    SELECT s.status, s.id, s.duplicate, s.message, s.hint INTO status, id, duplicate, message, hint
    FROM :schema.enqueue_set(ARRAY[new_id], ARRAY[given], ARRAY[workspace], ARRAY[workflow], ARRAY[content], ARRAY[idempotency_key],
                             ARRAY[executor_group], ARRAY[priority], ARRAY[run_at], ARRAY[default_group], ARRAY[traceparent],
                             ARRAY[business_key], ARRAY[labels], is_bounded => enqueue_one.is_bounded) s;
END
$$;
