-- The names of the signals that steps or states of a definition wait for, each once. A definition never changes, so a signal of any other
-- name would never be consumed. The server plans a function in SQL anew for each transaction, and this one in plpgsql once for a session.
-- Locks: none. Caller: send_signal().
CREATE OR REPLACE FUNCTION :schema.signal_names(of_definition bigint) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(DISTINCT n.name COLLATE "C"), '{}')
            FROM :schema.workflow_definitions d CROSS JOIN LATERAL (
                SELECT CASE json_typeof(s.value -> 'signal') WHEN 'string' THEN s.value ->> 'signal'
                                                             WHEN 'object' THEN s.value #>> '{signal,name}' END AS name
                FROM (VALUES ('steps'), ('on_failure'), ('finally')) p (section),
                     LATERAL json_each(d.definition::json -> p.section) s (step, value)
                UNION ALL
                SELECT t.name FROM json_array_elements_text(d.definition::json -> 'signals') t (name)) n
            WHERE d.id = of_definition AND n.name IS NOT NULL);
END
$$;
