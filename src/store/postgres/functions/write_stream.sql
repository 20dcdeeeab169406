-- Adds changes of executions to the stream, in the transaction of the changes, and notifies the readers at its commit. Each caller checks
-- first whether the stream is read (stream_is_read()).
--   kinds       of the executions at the same places; with one element, of all. 'end' stands for the kind of their end in the history
--   executions  ids; NULL = none
-- Locks: none but its own rows. Callers: the functions that change states.
CREATE OR REPLACE FUNCTION :schema.write_stream(now_us bigint, kinds text[], executions uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO :schema.stream_entries (at, size, kind, ids, workspaces)
    SELECT now_us, count(*), c.kind, array_agg(c.id ORDER BY c.place), array_agg(c.workspace_id ORDER BY c.place)
    FROM (SELECT u.id, u.place,
                 coalesce((SELECT q.workspace_id FROM :schema.workflow_execution_queue q WHERE q.id = u.id),
                          (SELECT h.workspace_id FROM :schema.workflow_executions h WHERE h.id = u.id)) AS workspace_id,
                 CASE WHEN u.kind <> 'end' THEN u.kind
                      ELSE (SELECT CASE h.status WHEN 'COMPLETED' THEN 'complete' WHEN 'FAILED' THEN 'fail' ELSE 'cancelled' END
                            FROM :schema.workflow_executions h WHERE h.id = u.id) END AS kind
          FROM (SELECT e.id, e.place, kinds[least(e.place, cardinality(kinds))] AS kind
                FROM unnest(executions) WITH ORDINALITY e (id, place)) u) c
    WHERE c.workspace_id IS NOT NULL AND c.kind IS NOT NULL
    GROUP BY c.kind ORDER BY min(c.place);
    IF FOUND AND pg_catalog.current_setting('weir.notify', true) IS DISTINCT FROM 'off'
       AND pg_catalog.pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_catalog.pg_notify(:'schema', 'stream');
    END IF;
END
$$;
