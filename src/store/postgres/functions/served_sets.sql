-- For each living node the sets of handlers of which it has all. Nodes with equal handlers are compared once, and by name. The scheduler
-- reads this each second, and a comparison of the arrays (<@) reads all handlers of a node again for each set. Locks: none.
-- Caller: schedule_state().
CREATE OR REPLACE FUNCTION :schema.served_sets() RETURNS TABLE (node_id bigint, handler_set integer)
LANGUAGE sql STABLE SET enable_hashjoin = on SET enable_seqscan = on SET jit = off SET search_path = pg_catalog, pg_temp AS $$
    WITH live AS MATERIALIZED (
        SELECT n.id, n.handlers, min(n.id) OVER (PARTITION BY n.handlers) AS kind FROM :schema.nodes n
        WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.handlers <> '[]'
    ), offers AS MATERIALIZED (
        SELECT DISTINCT l.kind, o.name FROM live l CROSS JOIN LATERAL jsonb_array_elements_text(l.handlers) o (name) WHERE l.id = l.kind
    ), served AS MATERIALIZED (
        SELECT o.kind, s.id AS set_id
        FROM :schema.handler_sets s CROSS JOIN LATERAL jsonb_array_elements_text(s.handlers) h (name) JOIN offers o ON o.name = h.name
        GROUP BY o.kind, s.id HAVING count(*) = jsonb_array_length(s.handlers)
    )
    SELECT l.id, s.set_id FROM live l JOIN served s ON s.kind = l.kind
$$;
