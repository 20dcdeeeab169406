-- Inserts the labels and business keys of new executions: those of the requests, then those of their definitions under other names.
--   inserted   the new executions
--   places     of the arrays, those that became items; NULL = all
--   labels     JSON objects of texts
-- Without labels and business keys it reads the definitions, each once. Locks: nothing but its own rows.
-- Callers: enqueue_one(), enqueue_set().
CREATE OR REPLACE FUNCTION :schema.add_labels(inserted uuid[], places integer[], ids uuid[], workspace_ids integer[],
                                              definition_ids bigint[], business_keys text[], labels text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF cardinality(array_remove(business_keys, NULL)) > 0 OR cardinality(array_remove(labels, NULL)) > 0 THEN
        INSERT INTO :schema.execution_labels (execution_id, workspace_id, name, value)
        SELECT u.id, u.workspace_id, p.name, p.value
        FROM unnest(ids, workspace_ids, business_keys, labels) WITH ORDINALITY u (id, workspace_id, business_key, labels, place)
        CROSS JOIN LATERAL (SELECT '', u.business_key WHERE u.business_key IS NOT NULL
                            UNION ALL
                            SELECT e.key, e.value FROM json_each_text(u.labels::json) e) p (name, value)
        WHERE u.id IN (SELECT unnest(inserted)) AND (places IS NULL OR u.place IN (SELECT unnest(places)))
        ON CONFLICT DO NOTHING;
    END IF;
    IF EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.id = ANY (definition_ids) AND d.labels IS NOT NULL) THEN
        INSERT INTO :schema.execution_labels (execution_id, workspace_id, name, value)
        SELECT u.id, u.workspace_id, p.key, p.value
        FROM unnest(ids, workspace_ids, definition_ids) WITH ORDINALITY u (id, workspace_id, definition_id, place)
        JOIN :schema.workflow_definitions d ON d.id = u.definition_id AND d.labels IS NOT NULL
        CROSS JOIN LATERAL jsonb_each_text(d.labels) p
        WHERE u.id IN (SELECT unnest(inserted)) AND (places IS NULL OR u.place IN (SELECT unnest(places)))
        ON CONFLICT DO NOTHING;
    END IF;
END
$$;
