-- The fences of these items, in their order; NULL = no such item. Locks: none. Caller: assign_items(), for items that are handed over: the
-- fence of one changes only by the assignment itself.
CREATE OR REPLACE FUNCTION :schema.fences_of(ids uuid[]) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
    SELECT array_agg(q.fence ORDER BY u.place)
    FROM unnest(ids) WITH ORDINALITY u (id, place) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
$$;
