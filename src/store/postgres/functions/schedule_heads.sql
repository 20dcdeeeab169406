-- The heads of lanes: per read at most mosts[i] + 1 runnable items behind (ranks[i], after[i]), in this order, with the limits of its
-- workspace. An item more than was asked for means that the lane goes on. A lane without items has no lists; slots_max is NULL when its
-- workspace does not exist.
-- Locks: none. Index: queue_runnable. Callers: schedule(), news_heads().
CREATE OR REPLACE FUNCTION :schema.schedule_heads(lanes bigint[], ranks bigint[], after uuid[], mosts integer[])
RETURNS TABLE (place integer, slots_max bigint, weight bigint, is_paused boolean, rank_list bigint[], id_list uuid[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.place::integer, w.slots_max::bigint, w.weight::bigint, w.paused, h.ranks, h.ids
    FROM unnest(lanes, ranks, after, mosts) WITH ORDINALITY r (lane, rank, after, most, place)
    LEFT JOIN :schema.workspaces w ON w.id = (r.lane & 2147483647)::integer
    CROSS JOIN LATERAL (
        SELECT array_agg(o.rank) AS ranks, array_agg(o.id) AS ids
        FROM (SELECT q.rank, q.id FROM :schema.workflow_execution_queue q
              WHERE q.due_at IS NULL AND q.phase = 0 AND q.lane_id = r.lane AND (q.rank, q.id) > (r.rank, r.after)
              ORDER BY q.rank, q.id LIMIT r.most + 1) o) h;
END
$$;
