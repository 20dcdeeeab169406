-- All facts of a new epoch and the point from which news is read, in one snapshot. The function is STABLE, so each of its statements uses
-- the snapshot of the statement that calls it.
--   1. 'seen': this snapshot; 'timeline': see timeline()
--   2. the facts of schedule_state()
--   3. 'held' per lane and node, from held_items
--   4. 'pass' and 'runnable' per lane that has a row that waits for no time: its items may all be held. The index is ordered by lanes: one
--      probe finds the next lane, so the time depends on the number of lanes and not on the number of rows.
-- Rows: see schedule(). Locks: none. Caller: schedule().
CREATE OR REPLACE FUNCTION :schema.schedule_load()
RETURNS TABLE (tag text, n1 bigint, n2 bigint, n3 bigint, n4 bigint, n5 bigint, flag boolean, id uuid, name text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    lanes bigint[];
BEGIN
    RETURN QUERY
    SELECT s.tag, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, NULL::uuid, s.name
    FROM (VALUES ('seen', pg_current_snapshot()::text), ('timeline', :schema.timeline())) s (tag, name);
    RETURN QUERY SELECT s.tag, s.n1, s.n2, s.n3, s.n4, s.n5, s.flag, s.id, NULL::text FROM :schema.schedule_state(true, true) s;
    RETURN QUERY
    SELECT 'held', q.lane_id, q.node_id, count(*), CASE WHEN q.node_id = 0 THEN 0 ELSE count(*) END, NULL::bigint,
           NULL::boolean, NULL::uuid, NULL::text
    FROM :schema.held_items q GROUP BY q.lane_id, q.node_id;
    lanes := ARRAY(
        WITH RECURSIVE lane (id) AS (
            (SELECT q.lane_id FROM :schema.workflow_execution_queue q WHERE q.due_at IS NULL ORDER BY q.lane_id LIMIT 1)
            UNION ALL
            SELECT (SELECT q.lane_id FROM :schema.workflow_execution_queue q WHERE q.due_at IS NULL AND q.lane_id > l.id
                    ORDER BY q.lane_id LIMIT 1)
            FROM lane l WHERE l.id IS NOT NULL)
        SELECT l.id FROM lane l WHERE l.id IS NOT NULL);
    RETURN QUERY
    SELECT 'pass', b.lane_id, b.pass, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, NULL::uuid, NULL::text
    FROM :schema.books b WHERE b.lane_id = ANY (lanes) AND b.pass <> 0;
    RETURN QUERY
    SELECT 'runnable', l.id, -9223372036854775808, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, NULL::uuid, NULL::text
    FROM unnest(lanes) l (id);
END
$$;
