-- Writes what follows from ends, in the transaction of the ends: the events of hooks, and the notes for the duty of children. Nearly all
-- stores have neither hooks nor children, so this looks for them first.
--   places  of the items that have ended, in ids
-- Locks: none but its own rows. Caller: end_items().
CREATE OR REPLACE FUNCTION :schema.note_ends(now_us bigint, ids uuid[], places integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM :schema.hooks) THEN
        PERFORM :schema.write_hook_events(now_us, ARRAY(SELECT ids[p] FROM unnest(places) p ORDER BY p));
    END IF;
    IF EXISTS (SELECT 1 FROM :schema.child_steps) THEN
        PERFORM :schema.note_child_ends(ARRAY(SELECT ids[p] FROM unnest(places) p));
    END IF;
END
$$;
