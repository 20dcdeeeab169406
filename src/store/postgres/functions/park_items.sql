-- Parks items of a set: a part of step 3 of record(). record_plain_parks() parks nearly all, with their steps, record_parks() the rest.
--   ids ... starts                  see record_parks()
--   step_records ... step_signals   see record()
--
-- places, started, signalled: see record_parks(). written: step_records, with NULL for each step that is stored. ago: `seen` with the
-- starts of parks in its places, if a record of a park did not take effect: it may end its item (end_items()).
-- Locks: the rows. Caller: record().
CREATE OR REPLACE FUNCTION :schema.park_items(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                              delays bigint[], codes text[], seen bigint[], starts bigint[], step_records integer[],
                                              steps text[], step_states text[], step_attempts integer[], step_failures integer[],
                                              exit_codes integer[], began_ago bigint[], due_ins bigint[], outputs bytea[],
                                              variables bytea[], step_codes text[], step_errors text[], step_signals text[],
                                              OUT places integer[], OUT started integer[], OUT signalled uuid[], OUT written integer[],
                                              OUT ago bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    due constant integer := cardinality(array_positions(kinds, 10));
    others record;
BEGIN
    SELECT p.places, p.places, p.signalled, p.written INTO places, started, signalled, written
    FROM :schema.record_plain_parks(recorder, now_us, ids, fences, kinds, delays, codes, seen, starts, step_records, steps, step_states,
                                    step_attempts, step_failures, exit_codes, began_ago, due_ins, outputs, variables, step_codes,
                                    step_errors, step_signals) p;
    ago := seen;
    IF coalesce(cardinality(places), 0) < due THEN
        SELECT * INTO others FROM :schema.record_parks(recorder, now_us, ids, fences, kinds, delays, codes, seen, starts);
        places := places || others.places;
        started := started || others.started;
        signalled := signalled || others.signalled;
    END IF;
    IF coalesce(cardinality(places), 0) < due THEN
        ago := ARRAY(SELECT CASE WHEN r.kind = 10 THEN coalesce(r.start, -1) ELSE r.seen END
                     FROM unnest(kinds, seen, starts) WITH ORDINALITY r (kind, seen, start, n) ORDER BY r.n);
    END IF;
END
$$;
