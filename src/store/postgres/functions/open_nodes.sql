-- The nodes of the assignments, with 0 for those that must wait: an earlier one of their lane is for a node that is not in `alive`. Only
-- runnable items count: one that was handed over is before its lane, and one that has ended is before nobody. Caller: assign_items().
CREATE OR REPLACE FUNCTION :schema.open_nodes(ids uuid[], nodes bigint[], handed boolean[], alive bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    IF alive @> nodes THEN
        RETURN nodes;
    END IF;
    RETURN ARRAY(SELECT CASE WHEN a.node = ANY (alive) AND NOT a.handed
                              AND bool_or(a.node <> ALL (alive) AND NOT a.handed) OVER (PARTITION BY q.lane_id ORDER BY a.place)
                             THEN 0 ELSE a.node END
                 FROM unnest(ids, nodes, handed) WITH ORDINALITY a (id, node, handed, place)
                 LEFT JOIN :schema.workflow_execution_queue q ON q.id = a.id AND q.phase = 0
                 ORDER BY a.place);
END
$$;
