-- Which hand-overs count towards poison: those under which a step ran, since a step of it last ended.
ALTER TABLE :schema.workflow_execution_queue
    ADD COLUMN handovers_counted integer NOT NULL DEFAULT 0,
    ADD COLUMN steps_ended integer NOT NULL DEFAULT 0; -- of its steps, at its last hand-over

-- What such a node runs lives on without it, so that its death says nothing of what it held.
ALTER TABLE :schema.nodes ADD COLUMN is_outlived boolean NOT NULL DEFAULT false;
UPDATE :schema.nodes SET is_outlived = true WHERE engine = 'temporal';

-- What a hand-over would count of these items, which the caller has locked.
--   running  the steps that ran under the claim that is lost; NULL = none, or its node's death did not stop them
--   counted  how many hand-overs count then
CREATE FUNCTION :schema.count_handovers(ids uuid[])
RETURNS TABLE (id uuid, node_id bigint, running text, counted integer, ended integer)
LANGUAGE sql STABLE AS $$
    SELECT q.id, q.node_id, s.running,
           CASE WHEN s.ended > q.steps_ended THEN 0 ELSE q.handovers_counted END + CASE WHEN s.running IS NULL THEN 0 ELSE 1 END, s.ended
    FROM :schema.workflow_execution_queue q
    CROSS JOIN LATERAL (
        SELECT (count(*) FILTER (WHERE n.finished_at IS NOT NULL))::integer AS ended,
               left(string_agg(n.step, ', ' ORDER BY n.step)
                    FILTER (WHERE n.status = 'RUNNING' AND n.fence = q.fence
                            AND NOT EXISTS (SELECT 1 FROM :schema.nodes o WHERE o.id = q.node_id AND o.is_outlived)), 200) AS running
        FROM :schema.workflow_node_executions n WHERE n.execution_id = q.id) s
    WHERE q.id = ANY (ids)
$$;

-- As before, but only what count_handovers counts makes poison, and the event tells of it.
CREATE OR REPLACE FUNCTION :schema.hand_over(ids uuid[], why text, handovers_max integer, now_us bigint, OUT handed_over integer,
                                             OUT poisoned integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next_fence bigint := nextval(':schema.fences');
    lost uuid[];
    freed integer[];
BEGIN
    WITH before AS MATERIALIZED (
        SELECT c.id, c.node_id, c.running, c.counted, c.ended FROM :schema.count_handovers(ids) c
    ), taken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, handovers = q.handovers + 1, interruptions = q.interruptions + 1,
            handovers_counted = b.counted, steps_ended = b.ended
        FROM before b WHERE q.id = b.id
        RETURNING q.id, b.node_id, b.running, b.counted, b.running IS NOT NULL AND b.counted >= handovers_max AS poison
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT t.id, now_us, CASE WHEN t.poison THEN 'poison' ELSE 'hand_over' END, t.node_id, next_fence, why,
               CASE WHEN t.running IS NOT NULL THEN format('%s of %s while it ran %s', t.counted, handovers_max, t.running) END
        FROM taken t
    )
    SELECT array_agg(t.id) FILTER (WHERE t.poison), count(*) FILTER (WHERE NOT t.poison), count(*) FILTER (WHERE t.poison)
    INTO lost, handed_over, poisoned FROM taken t;
    IF lost IS NOT NULL THEN
        SELECT array_agg(m.workspace_id) INTO freed
        FROM :schema.move_to_history(lost, 'FAILED', 'poison',
                                     format('its node died %s times while it ran, and no step of it ended in between; it is not tried again',
                                            handovers_max),
                                     now_us) m;
        PERFORM :schema.free_slots(freed, array_fill('FAILED'::text, ARRAY[cardinality(freed)]));
    END IF;
END
$$;
