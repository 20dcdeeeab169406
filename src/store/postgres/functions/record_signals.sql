-- Marks the signals that steps of the records have consumed, and wakes what was parked behind a signal.
--   done                 the places of these records
--   ids                  the argument of record()
--   woken                the parked items with a signal that their engine had not got; NULL = none
--   signal_records ...   of a step that a signal has ended: the place of its record, the step, and the number of the signal
-- 1. The signals of ended steps are consumed. The data of the report of a function is removed, because it may hold secrets of its step.
-- 2. A parked item with a signal that its engine had not got is woken at once. The record of the park has locked the row and read its
--    present count, so the transaction of a later signal finds the item parked.
-- Locks: the rows of the signals; the items are locked. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_signals(now_us bigint, done integer[], ids uuid[], woken uuid[], signal_records integer[],
                                                  signal_steps text[], signal_seqs bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE :schema.signals s SET step = c.step, consumed_at = now_us, data = CASE WHEN s.name LIKE 'callback:%' THEN 'null' ELSE s.data END
    FROM unnest(signal_records, signal_steps, signal_seqs) c (place, step, seq)
    WHERE s.execution_id = ANY (ids) AND s.execution_id = ids[c.place] AND s.seq = c.seq AND s.consumed_at IS NULL
      AND c.place = ANY (done) AND cardinality(signal_records) > 0;
    IF woken IS NOT NULL THEN
        PERFORM :schema.wake_items(now_us, woken);
    END IF;
END
$$;
