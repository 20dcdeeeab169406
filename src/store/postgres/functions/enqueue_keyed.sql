-- Enqueues one request whose idempotency key has a mode (docs/design/keys.md). The first arguments are those of enqueue_one().
--   key_mode       'replace', 'debounce' or 'one_active'
--   debounce, debounce_most  of the mode debounce: its window and the longest delay, in microseconds
--   actor          of the event of a replaced execution; NULL = none
-- Returns the columns of enqueue_one(), and whether an execution of the key that had not started was cancelled.
--
-- 1. A request with an unknown name is refused before anything is locked.
-- 2. A given id that is present answers at once: a repeated request must not replace the execution that it has made.
-- 3. The row of the key is inserted or locked. Of two calls with one key the second waits here, and then reads the work of the first.
-- 4. An execution of another workflow that has not ended refuses the request: its program may not know this one.
-- 5. one_active: the execution of the key, or its retry, that has not ended is the answer. A snapshot of before may lack its end, so a
--    transaction that keeps its snapshot is refused.
-- 6. replace, debounce: the execution of the key is locked. A claim at this instant commits before it, or finds no row. One that has
--    started is left as it is. One that was due already gives its place in the order to the new one, but a debounce takes only the
--    place of a debounce.
-- 7. enqueue_one() inserts the item without its key, since it would take the key for a repetition. A refusal changes nothing.
-- 8. The key goes to the new item, and the replaced one moves to the history.
-- Locks: the key, then its execution, then those of enqueue_set(). Callers: try_enqueue(), enqueue_keyed
-- (queries/enqueue.sql).
CREATE OR REPLACE FUNCTION :schema.enqueue_keyed(new_id uuid, given boolean, workspace text, workflow text, content bytea,
                                                 idempotency_key text, executor_group text, priority integer, run_at bigint,
                                                 default_group text, traceparent text, business_key text, labels text, key_mode text,
                                                 debounce bigint, debounce_most bigint, actor text,
                                                 OUT status text, OUT id uuid, OUT duplicate boolean, OUT message text, OUT hint text,
                                                 OUT replaced boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us    constant bigint := :schema.store_time();
    starts_at bigint;
    owner     constant integer := :schema.owner_of_request(new_id, given, workspace, workflow, executor_group);
    is_new    boolean := false;
    known     uuid;
    active    uuid;
    of_flow   text; -- the workflow of `active`
    due_at    bigint;
    first_us  bigint; -- of the debounce
BEGIN
    replaced := false;
    IF owner IS NOT NULL AND key_mode = 'one_active'
       AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        status := 'illegal_state';
        message := 'key_mode one_active works in a transaction of READ COMMITTED only';
        hint := 'another snapshot may show an execution that has ended: begin the transaction with READ COMMITTED';
        RETURN;
    END IF;
    IF owner IS NOT NULL THEN
        INSERT INTO :schema.idempotency_keys (workspace_id, key, execution_id)
        VALUES (owner, enqueue_keyed.idempotency_key, new_id) ON CONFLICT DO NOTHING;
        is_new := FOUND;
    END IF;
    IF owner IS NOT NULL AND NOT is_new THEN
        SELECT k.execution_id, k.first_at INTO known, first_us FROM :schema.idempotency_keys k
        WHERE k.workspace_id = owner AND k.key = enqueue_keyed.idempotency_key FOR UPDATE;
        IF NOT FOUND THEN
            RAISE serialization_failure USING MESSAGE = 'the execution of this key was removed at this moment', HINT = 'repeat the call';
        END IF;
        SELECT a.id, a.workflow INTO active, of_flow FROM :schema.active_of_key(known, key_mode = 'one_active') a;
        IF of_flow <> enqueue_keyed.workflow THEN
            status := 'idempotency_key_reused';
            message := format('idempotency key "%s" belongs to execution %s of another workflow, which has not ended',
                              enqueue_keyed.idempotency_key, active);
            hint := 'use a key of its own for each workflow';
            RETURN;
        END IF;
        IF key_mode = 'one_active' AND active IS NOT NULL THEN
            status := 'ok';
            id := active;
            duplicate := true;
            RETURN;
        END IF;
        SELECT q.run_at INTO due_at FROM :schema.workflow_execution_queue q
        WHERE key_mode <> 'one_active' AND q.id = active AND q.status = 'PENDING' AND q.phase < 2 AND q.interruptions = 0 FOR UPDATE;
        replaced := FOUND;
    END IF;
    IF key_mode = 'debounce' THEN
        first_us := CASE WHEN replaced THEN first_us END;
        starts_at := CASE WHEN first_us IS NOT NULL AND due_at <= now_us THEN due_at
                          ELSE least(now_us + debounce, coalesce(first_us, now_us) + debounce_most) END;
        first_us := coalesce(first_us, now_us);
    ELSE
        first_us := NULL;
        starts_at := CASE WHEN replaced AND run_at IS NULL AND due_at <= now_us THEN due_at ELSE run_at END;
    END IF;
    SELECT o.status, o.id, o.duplicate, o.message, o.hint INTO status, id, duplicate, message, hint
    FROM :schema.enqueue_one(new_id, given, workspace, workflow, content, NULL, executor_group, priority, starts_at, default_group,
                             traceparent, business_key, labels, NOT replaced) o; -- in place of another one it takes no room
    IF status = 'ok' AND NOT duplicate AND owner IS NULL THEN
        RAISE serialization_failure USING MESSAGE = 'a name of this request was made at this moment', HINT = 'repeat the call';
    ELSIF status <> 'ok' OR duplicate THEN
        replaced := false;
        DELETE FROM :schema.idempotency_keys k
        WHERE is_new AND k.workspace_id = owner AND k.key = enqueue_keyed.idempotency_key AND k.execution_id = new_id;
        RETURN;
    END IF;
    UPDATE :schema.workflow_execution_queue q SET idempotency_key = enqueue_keyed.idempotency_key WHERE q.id = new_id;
    UPDATE :schema.idempotency_keys k SET execution_id = new_id, first_at = first_us
    WHERE (NOT is_new OR first_us IS NOT NULL) AND k.workspace_id = owner AND k.key = enqueue_keyed.idempotency_key;
    IF replaced THEN
        PERFORM :schema.end_replaced(active, new_id, actor, now_us);
    END IF;
END
$$;
