-- Deletes, of inserted items with given ids, those that are in the history. They lived and ended between the check of enqueue_set() and the
-- insert, and an ended execution must not live again. Corrects the news. Returns the ids that stay.
-- Locks: none but its own rows. Caller: enqueue_set().
CREATE OR REPLACE FUNCTION :schema.undo_ended_items(now_us bigint, inserted uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    stay uuid[];
BEGIN
    PERFORM :schema.refuse_unseen_ends(inserted, '{}');
    WITH gone AS (
        DELETE FROM :schema.workflow_execution_queue q
        WHERE q.id = ANY (inserted) AND EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = q.id)
        RETURNING q.id, q.lane_id, q.phase
    ), feed AS (
        INSERT INTO :schema.news (at, kind, lanes, runnable, waiting)
        SELECT now_us, 1, array_agg(s.lane_id), array_agg(-s.runnable), array_agg(-s.waiting)
        FROM (SELECT g.lane_id, (count(*) FILTER (WHERE g.phase = 0))::integer AS runnable,
                     (count(*) FILTER (WHERE g.phase = 1))::integer AS waiting FROM gone g GROUP BY g.lane_id) s
        HAVING count(*) > 0
    )
    SELECT array_agg(i.id) INTO stay FROM unnest(inserted) i (id) WHERE i.id NOT IN (SELECT g.id FROM gone g);
    RETURN stay;
END
$$;
