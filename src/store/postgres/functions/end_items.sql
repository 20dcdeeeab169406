-- Moves the items of a set that end to the history: step 4 of record(). record_plain_ends() moves nearly all, record_sleep_ends() those
-- that slept once, record_ends() the rest.
--   due                       how many records of the set may end their items
--   done                      the places of the records that have taken effect
--   sleeps                    the places of sleeps that end with their executions (slept_steps())
--   end_steps ... end_errors  see record()
--
-- An execution whose only step ended together with it has no row in workflow_node_executions. So one look for any such row spares the rest.
-- The row of one that slept once is that of its sleep (slept_steps()). Neither such an execution nor one that is parked by this set makes
-- the others take the long way.
-- places, started, claims: see record_ends(). stored: the places with a step that has such a row, NULL = none. written: step_records with
-- NULL for each sleep whose row stays as it is.
-- Locks: the rows of the items. Caller: record().
CREATE OR REPLACE FUNCTION :schema.end_items(due integer, done integer[], recorder bigint, now_us bigint, ids uuid[], fences bigint[],
                                             kinds integer[], started_ago bigint[], codes text[], errors text[], end_steps text[],
                                             end_states text[], end_attempts integer[], end_failures integer[], end_exit_codes integer[],
                                             end_began_ago bigint[], end_outputs bytea[], end_variables bytea[], end_codes text[],
                                             end_errors text[], sleeps integer[], step_records integer[], ended_ago bigint[],
                                             OUT places integer[], OUT started integer[], OUT claims bigint[],
                                             OUT stored integer[], OUT written integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    has_steps boolean;
    slept integer[]; -- the places that record_sleep_ends() moved
    open_ids uuid[]; -- of the records that have not taken effect
    others record;
BEGIN
    written := step_records;
    IF sleeps IS NOT NULL AND recorder <> 0 THEN
        SELECT p.places, p.started, p.claims INTO slept, started, claims
        FROM :schema.record_sleep_ends(recorder, now_us, ids, fences, sleeps, step_records, ended_ago, started_ago, end_steps, end_states,
                                       end_attempts, end_failures, end_exit_codes, end_began_ago, end_outputs, end_variables, end_codes,
                                       end_errors) p;
        places := slept;
    END IF;
    IF cardinality(slept) = cardinality(step_records) THEN
        written := '{}';
    ELSIF slept IS NOT NULL THEN
        written := ARRAY(SELECT CASE WHEN (r.n IN (SELECT unnest(sleeps)) AND r.place IN (SELECT unnest(slept))) IS NOT TRUE
                                     THEN r.place END
                         FROM unnest(step_records) WITH ORDINALITY r (place, n) ORDER BY r.n);
    END IF;
    IF coalesce(cardinality(places), 0) < due THEN
        done := done || slept;
        open_ids := CASE WHEN cardinality(done) > 0
                         THEN ARRAY(SELECT r.id FROM unnest(ids) WITH ORDINALITY r (id, n)
                                    WHERE (r.n IN (SELECT unnest(done))) IS NOT TRUE) ELSE ids END;
        has_steps := EXISTS (SELECT 1 FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY (open_ids));
        IF has_steps AND cardinality(end_steps) > 0 THEN
            SELECT array_agg(e.n::integer) INTO stored
            FROM :schema.workflow_node_executions s JOIN unnest(ids, end_steps) WITH ORDINALITY e (id, step, n) ON s.execution_id = e.id
            WHERE s.execution_id = ANY (open_ids) AND s.step = e.step;
        END IF;
        IF cardinality(end_steps) > 0 AND NOT has_steps THEN
            SELECT slept || p.places, end_items.started || p.started, end_items.claims || p.claims INTO places, started, claims
            FROM :schema.record_plain_ends(recorder, now_us, ids, fences, kinds, started_ago, end_steps, end_states, end_attempts,
                                           end_failures, end_exit_codes, end_began_ago, end_outputs, end_variables, end_codes,
                                           end_errors) p;
        END IF;
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
