-- Sends a signal to each execution of a set, in the order of the ids. A row per id with the answer of send_signal(). They are one act on
-- record. Locks: the items by ascending id. Caller: signal_items (queries/signals.sql).
CREATE OR REPLACE FUNCTION :schema.signal_items(ids uuid[], name text, data text, key text, actor text, why text, subject text)
RETURNS TABLE (item uuid, outcome text, seq bigint, kept bigint, bytes bigint, names text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    sent   record;
    number bigint := 0;
BEGIN
    FOR item IN SELECT u.id FROM unnest(ids) u (id) ORDER BY u.id LOOP
        SELECT s.* INTO sent FROM :schema.send_signal(item, name, data, key, actor, why, false) s;
        outcome := sent.outcome;
        seq := sent.seq;
        kept := sent.kept;
        bytes := sent.bytes;
        names := array_to_string(sent.names, ', ');
        number := number + (sent.outcome = 'sent')::integer;
        RETURN NEXT;
    END LOOP;
    IF number > 0 THEN
        PERFORM :schema.record_act(actor, why, 'signal', coalesce(subject, ids[1]::text), NULL, jsonb_build_object('detail', name),
                                   number);
    END IF;
END
$$;
