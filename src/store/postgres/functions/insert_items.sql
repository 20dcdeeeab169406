-- Inserts items, their params and one row of news. `places`: of the arrays, those that become items; NULL = all.
-- `traceparents` may be shorter than the other arrays. Returns the ids that
-- were inserted; an id that is in the queue already is left out. Locks: nothing but its own rows. Caller: enqueue_set().
CREATE OR REPLACE FUNCTION :schema.insert_items(now_us bigint, ids uuid[], workspace_ids integer[], definition_ids bigint[],
                                                group_ids integer[], demands integer[], priorities integer[], contents bytea[],
                                                idempotency_keys text[], run_ats bigint[], traceparents text[], places integer[])
RETURNS uuid[]
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    run_at_past_most constant bigint := 86400000000; -- RUN_AT_PAST_MOST_US in queue/limits.h
    inserted uuid[];
BEGIN
    WITH request AS MATERIALIZED (
        SELECT u.id, :schema.lane_id(u.group_id, u.workspace_id, u.demand) AS lane_id, u.workspace_id, u.definition_id, u.priority,
               u.content, u.key, u.traceparent, coalesce(u.run_at, now_us) AS run_at, coalesce(u.run_at, now_us) > now_us AS waits
        FROM unnest(ids, group_ids, workspace_ids, definition_ids, demands, priorities, contents, idempotency_keys, run_ats,
                    traceparents)
             WITH ORDINALITY u (id, group_id, workspace_id, definition_id, demand, priority, content, key, run_at, traceparent, place)
        WHERE u.definition_id IS NOT NULL AND (places IS NULL OR u.place IN (SELECT unnest(places)))
        ORDER BY u.id
    ), item AS (
        INSERT INTO :schema.workflow_execution_queue
            (id, lane_id, workspace_id, definition_id, status, phase, rank, priority, run_at, due_at, has_params, created_at,
             idempotency_key, traceparent)
        SELECT r.id, r.lane_id, r.workspace_id, r.definition_id, 'PENDING', CASE WHEN r.waits THEN 1 ELSE 0 END,
               :schema.item_rank(greatest(r.run_at, now_us - run_at_past_most), r.priority), r.priority, r.run_at,
               CASE WHEN r.waits THEN r.run_at END,
               r.content IS NOT NULL, now_us, r.key, r.traceparent
        FROM request r
        ON CONFLICT DO NOTHING
        RETURNING id, lane_id, phase, rank, due_at
    ), payload AS (
        INSERT INTO :schema.execution_params (id, params)
        SELECT r.id, r.content FROM request r
        WHERE r.content IS NOT NULL AND (places IS NULL OR r.id IN (SELECT i.id FROM item i))
        ON CONFLICT DO NOTHING
    ), feed AS (
        INSERT INTO :schema.news (at, kind, lanes, runnable, waiting, least_rank, due)
        SELECT now_us, 1, array_agg(s.lane_id), array_agg(s.runnable), CASE WHEN sum(s.waiting) > 0 THEN array_agg(s.waiting) END,
               array_agg(s.least_rank), min(s.due)
        FROM (SELECT i.lane_id, (count(*) FILTER (WHERE i.phase = 0))::integer AS runnable,
                     (count(*) FILTER (WHERE i.phase = 1))::integer AS waiting, min(i.rank) FILTER (WHERE i.phase = 0) AS least_rank,
                     min(i.due_at) AS due
              FROM item i GROUP BY i.lane_id) s
        HAVING count(*) > 0
    )
    SELECT array_agg(i.id) INTO inserted FROM item i;
    RETURN inserted;
END
$$;
