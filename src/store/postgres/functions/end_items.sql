-- Moves the items of a set that end to the history: step 5 of record(). record_plain_ends() moves nearly all, record_ends() the rest.
--   due                       how many records of the set may end their items
--   end_steps ... end_errors  see record()
--
-- An execution whose only step ended together with it has no row in workflow_node_executions. So one look for any such row spares the rest.
-- places, started, claims: see record_ends(). stored: the places with a step that has such a row, NULL = none.
-- Locks: the rows of the items. Caller: record().
CREATE OR REPLACE FUNCTION :schema.end_items(due integer, recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                             started_ago bigint[], codes text[], errors text[], end_steps text[], end_states text[],
                                             end_attempts integer[], end_failures integer[], end_exit_codes integer[],
                                             end_began_ago bigint[], end_outputs bytea[], end_variables bytea[], end_codes text[],
                                             end_errors text[], OUT places integer[], OUT started integer[], OUT claims bigint[],
                                             OUT stored integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    has_steps constant boolean := EXISTS (SELECT 1 FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY (ids));
    others record;
BEGIN
    IF has_steps AND cardinality(end_steps) > 0 THEN
        SELECT array_agg(e.n::integer) INTO stored
        FROM :schema.workflow_node_executions s JOIN unnest(ids, end_steps) WITH ORDINALITY e (id, step, n) ON s.execution_id = e.id
        WHERE s.execution_id = ANY (ids) AND s.step = e.step;
    END IF;
    IF cardinality(end_steps) > 0 AND NOT has_steps THEN
        SELECT p.places, p.started, p.claims INTO places, started, claims
        FROM :schema.record_plain_ends(recorder, now_us, ids, fences, kinds, started_ago, end_steps, end_states, end_attempts, end_failures,
                                       end_exit_codes, end_began_ago, end_outputs, end_variables, end_codes, end_errors) p;
    END IF;
    IF coalesce(cardinality(places), 0) < due THEN
        SELECT e.places, e.started, e.claims INTO others
        FROM :schema.record_ends(recorder, now_us, ids, fences, kinds, started_ago, codes, errors, end_steps, end_states, end_attempts,
                                 end_failures, end_exit_codes, end_began_ago, end_outputs, end_variables, end_codes, end_errors, stored,
                                 has_steps) e;
        places := places || others.places;
        started := started || others.started;
        claims := claims || others.claims;
    END IF;
    PERFORM :schema.note_ends(now_us, ids, places) WHERE places IS NOT NULL;
END
$$;
