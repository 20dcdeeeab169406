-- The id of the target, which is made when it is new; its address is where it was reached last. Locks: its row. Callers: start_node,
-- node_target (queries/nodes.sql).
CREATE OR REPLACE FUNCTION :schema.keep_target(of_engine text, of_service text, of_namespace text, at_address text) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    target integer;
BEGIN
    UPDATE :schema.engine_targets t SET address = at_address
    WHERE t.engine = of_engine AND t.service = of_service AND t.namespace = of_namespace AND t.address <> at_address;
    INSERT INTO :schema.engine_targets (engine, service, namespace, address)
    SELECT of_engine, of_service, of_namespace, at_address
    WHERE NOT EXISTS (SELECT 1 FROM :schema.engine_targets t
                      WHERE t.engine = of_engine AND t.service = of_service AND t.namespace = of_namespace)
    ON CONFLICT DO NOTHING;
    SELECT t.id INTO STRICT target FROM :schema.engine_targets t
    WHERE t.engine = of_engine AND t.service = of_service AND t.namespace = of_namespace;
    RETURN target;
END
$$;
