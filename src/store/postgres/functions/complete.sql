-- For callers in SQL: the worker of a workflow that runs outside of a node reports its end (weir_complete() in weir.h). It ends as
-- cancelled, or FAILED when it has an error_code or an error, or COMPLETED.
--   workflow_id  `execution-<id>`, or the id alone
--   run_id       of the caller's run, or the first one of its chain: the end of another run is refused. NULL = any
-- The same end again changes nothing. Raises execution_not_found, illegal_state, conflict, store_busy, invalid_argument.
-- Locks: the row of the execution, then those of record().
CREATE OR REPLACE FUNCTION :schema.complete(workflow_id text, result jsonb DEFAULT NULL, run_id text DEFAULT NULL,
                                            error_code text DEFAULT NULL, error text DEFAULT NULL, cancelled boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    id_text constant text := regexp_replace(workflow_id, '^execution-', '');
    item constant uuid := CASE WHEN id_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN id_text::uuid END;
    kind constant integer := CASE WHEN cancelled THEN 8 WHEN error_code IS NOT NULL OR error IS NOT NULL THEN 7 ELSE 6 END;
    step_state constant text := (ARRAY['COMPLETED', 'FAILED', 'CANCELLED'])[kind - 5];
    ended text;
    held record;
    recorded jsonb;
    answer record;
BEGIN
    IF item IS NULL AND workflow_id IS NOT NULL THEN
        PERFORM :schema.refuse('invalid_argument', format('"%s" is not an execution id', left(workflow_id, 64)),
                               'give execution-<id>, or the id alone');
    END IF;
    PERFORM :schema.check_act(item, error);
    IF octet_length(error_code) > 64 OR octet_length(result::text) > 1048576 THEN
        PERFORM :schema.refuse('invalid_argument', 'the error code or the result is too long', 'at most 64 bytes and 1 MiB');
    END IF;
    SELECT q.fence, q.status, d.definition::jsonb ? 'temporal' AS is_outside INTO held
    FROM :schema.workflow_execution_queue q JOIN :schema.workflow_definitions d ON d.id = q.definition_id
    WHERE q.id = item FOR NO KEY UPDATE OF q;
    SELECT convert_from(s.variables, 'UTF8')::jsonb INTO recorded
    FROM :schema.execution_steps s WHERE s.execution_id = item AND s.step = 'workflow';
    IF NOT held.is_outside THEN
        PERFORM :schema.refuse_act(item, held.status, 'its workflow runs inside a node, which reports its end itself');
    ELSIF held.status = 'PENDING' THEN
        PERFORM :schema.refuse_act(item, held.status, 'it has not been started');
    ELSIF run_id IS NOT NULL AND recorded ->> 'run_id' IS NULL AND held.fence IS NOT NULL THEN
        PERFORM :schema.refuse('store_busy', 'the run of the execution is not on record yet; repeat the call', NULL);
    ELSIF run_id NOT IN (recorded ->> 'run_id', coalesce(recorded ->> 'first_run_id', recorded ->> 'run_id')) THEN
        PERFORM :schema.refuse('conflict', format('the execution runs as run %s, not as %s', recorded ->> 'run_id', run_id), NULL);
    ELSIF held.fence IS NULL THEN
        SELECT h.status INTO ended FROM :schema.workflow_executions h WHERE h.id = item;
        IF ended IS DISTINCT FROM step_state THEN
            PERFORM :schema.refuse_act(item, coalesce(ended, 'gone'), 'it has ended already');
        END IF;
        RETURN;
    END IF;
    FOR answer IN
        SELECT r.outcome
        FROM :schema.record_events(0, ARRAY[item], ARRAY[held.fence], ARRAY[kind], ARRAY[0::bigint], ARRAY[0::bigint], ARRAY[error_code],
                                  ARRAY[error], ARRAY['workflow'], ARRAY[step_state], ARRAY[1], ARRAY[(kind = 7)::integer], ARRAY[-1],
                                  ARRAY[-1::bigint], ARRAY[convert_to(result::text, 'UTF8')], ARRAY[convert_to(recorded::text, 'UTF8')],
                                  ARRAY[error_code], ARRAY[error], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}',
                                  '{}', ARRAY[true], '{}', '{}', '{}', '{}', '{}', '{}', '{}') r
        WHERE r.place IS NOT NULL
    LOOP
        PERFORM :schema.refuse_act(item, held.status, answer.outcome);
    END LOOP;
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, actor, reason, detail)
    VALUES (item, :schema.store_time(), 'report_end', 0, held.fence, :schema.actor(), error_code, error);
    PERFORM :schema.record_act(:schema.actor(), NULL, 'complete', item::text, NULL, jsonb_build_object('status', step_state), 1);
END
$$;

REVOKE ALL ON FUNCTION :schema.complete(text, jsonb, text, text, text, boolean) FROM PUBLIC;
