-- The place of an execution in its lane, counted up to 10000; NULL when it is not runnable. Index: queue_runnable. Callers: why(),
-- why_living (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.place_of(execution_id uuid) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT json_build_object('place', a.ahead + 1, 'place_is_exact', a.ahead < 10000, 'waiting_in_lane', a.runnable)
    FROM (SELECT (SELECT count(*) FROM (SELECT FROM :schema.workflow_execution_queue o
                                        WHERE o.lane_id = q.lane_id AND o.due_at IS NULL AND o.phase = 0
                                          AND (o.rank, o.id) < (q.rank, q.id)
                                        LIMIT 10000) f) AS ahead,
                 (SELECT b.runnable FROM :schema.lane_books b WHERE b.lane_id = q.lane_id) AS runnable
          FROM :schema.workflow_execution_queue q WHERE q.id = execution_id AND q.phase = 0) a
$$;
