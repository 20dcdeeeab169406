-- Lets PENDING and WAITING executions of a set go on with another version of their workflows. A row per id: see migration_outcomes().
-- 1. The items are locked first: a claim that comes at the same time waits, and takes the item with its new definition, or came before and
--    the item is held.
-- 2. A version with other handlers is of another lane. The news have the items as gone from one lane and new in the other, in two rows.
--    A lane may lose one and get one, and the scheduler must learn of the new one all the same. A scheduler that has read the item as
--    one of its former lane may give it to a node without these handlers. That node puts it back.
-- 3. The time of another timeout is known to a node, which parks the execution again.
-- Locks: lock_items(). Callers: migrate(), migrate_items (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.migrate_items(ids uuid[], to_version integer, actor text, why text, subject text DEFAULT NULL)
RETURNS TABLE (item uuid, outcome text, detail text, steps text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    judged_items uuid[]; outcomes text[]; details text[]; misfits text[];
    changed uuid[]; to_ids bigint[]; demands integer[]; versions integer[]; retimed uuid[];
BEGIN
    PERFORM 1 FROM :schema.lock_items(ids);
    SELECT array_agg(j.item), array_agg(j.outcome), array_agg(j.detail), array_agg(j.steps),
           array_agg(j.item) FILTER (WHERE j.outcome = 'changed'), array_agg(j.to_id) FILTER (WHERE j.outcome = 'changed'),
           array_agg(j.to_demand) FILTER (WHERE j.outcome = 'changed'), array_agg(j.from_version) FILTER (WHERE j.outcome = 'changed'),
           array_agg(j.item) FILTER (WHERE j.outcome = 'changed' AND j.retimed)
    INTO judged_items, outcomes, details, misfits, changed, to_ids, demands, versions, retimed
    FROM :schema.migration_outcomes(ids, to_version) j;
    IF changed IS NOT NULL THEN
        WITH wanted AS MATERIALIZED (
            SELECT u.id, u.to_id, u.version, q.lane_id AS from_lane,
                   :schema.lane_id((q.lane_id >> 47)::integer, q.workspace_id, u.demand) AS to_lane
            FROM unnest(changed, to_ids, demands, versions) u (id, to_id, demand, version)
            JOIN :schema.workflow_execution_queue q ON q.id = u.id
        ), moved AS (
            UPDATE :schema.workflow_execution_queue q SET definition_id = w.to_id, lane_id = w.to_lane
            FROM wanted w WHERE q.id = w.id RETURNING q.id, q.phase, q.rank, w.version, w.from_lane, w.to_lane
        ), event AS (
            INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason, detail)
            SELECT m.id, now_us, 'migrate', actor, why, 'version ' || m.version || ' to ' || to_version FROM moved m
        ), gone AS (
            INSERT INTO :schema.news (at, kind, lanes, runnable, waiting, parked)
            SELECT now_us, 4, array_agg(l.lane), array_agg(-l.runnable), array_agg(-l.waiting), array_agg(-l.parked)
            FROM (SELECT m.from_lane AS lane, (count(*) FILTER (WHERE m.phase = 0))::integer AS runnable,
                         (count(*) FILTER (WHERE m.phase = 1))::integer AS waiting, (count(*) FILTER (WHERE m.phase = 3))::integer AS parked
                  FROM moved m WHERE m.from_lane <> m.to_lane GROUP BY m.from_lane) l
            HAVING count(*) > 0
        )
        INSERT INTO :schema.news (at, kind, lanes, runnable, waiting, parked, least_rank)
        SELECT now_us, 1, array_agg(l.lane), array_agg(l.runnable), array_agg(l.waiting), array_agg(l.parked), array_agg(l.least_rank)
        FROM (SELECT m.to_lane AS lane, (count(*) FILTER (WHERE m.phase = 0))::integer AS runnable,
                     (count(*) FILTER (WHERE m.phase = 1))::integer AS waiting, (count(*) FILTER (WHERE m.phase = 3))::integer AS parked,
                     min(m.rank) FILTER (WHERE m.phase = 0) AS least_rank
              FROM moved m WHERE m.from_lane <> m.to_lane GROUP BY m.to_lane) l
        HAVING count(*) > 0;
        PERFORM :schema.notify_news();
        PERFORM :schema.wake_items(now_us, (SELECT array_agg(q.id) FROM :schema.workflow_execution_queue q
                                            WHERE q.id = ANY (retimed) AND q.phase = 3), actor, why) WHERE retimed IS NOT NULL;
        PERFORM :schema.record_act(actor, why, 'migrate', coalesce(subject, ids[1]::text), NULL,
                                   jsonb_build_object('version', to_version), cardinality(changed));
    END IF;
    RETURN QUERY SELECT u.item, u.outcome, u.detail, u.steps
                 FROM unnest(judged_items, outcomes, details, misfits) u (item, outcome, detail, steps);
END
$$;
