-- Marks the signals that steps of the records have consumed, and wakes what was parked behind a signal.
--   done                 the places of these records
--   ids, kinds           the arguments of record()
--   seen                 of kind 10: the number of the last signal that the engine had got
--   signal_records ...   of a step that a signal has ended: the place of its record, the step, and the number of the signal
-- 1. The signals of ended steps are consumed. The data of the report of a function is removed, because it may hold secrets of its step.
-- 2. A parked item with a signal that its engine had not got is woken at once. The record of the park has locked the row, so this reads
--    its present count, and the transaction of a later signal finds the item parked.
-- Locks: the rows of the signals; the items are locked. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_signals(now_us bigint, done integer[], ids uuid[], kinds integer[], seen bigint[],
                                                  signal_records integer[], signal_steps text[], signal_seqs bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    woken uuid[];
BEGIN
    UPDATE :schema.signals s SET step = c.step, consumed_at = now_us, data = CASE WHEN s.name LIKE 'callback:%' THEN 'null' ELSE s.data END
    FROM unnest(signal_records, signal_steps, signal_seqs) c (place, step, seq)
    WHERE s.execution_id = ANY (ids) AND s.execution_id = ids[c.place] AND s.seq = c.seq AND s.consumed_at IS NULL
      AND c.place = ANY (done);
    IF 10 = ANY (kinds) THEN
        SELECT array_agg(q.id) INTO woken
        FROM unnest(ids, kinds, seen) WITH ORDINALITY r (id, kind, seen, n) JOIN :schema.workflow_execution_queue q ON q.id = r.id
        WHERE q.id = ANY (ids) AND r.kind = 10 AND r.n = ANY (done) AND q.phase + 0 = 3 AND q.signals > greatest(r.seen, 0);
    END IF;
    IF woken IS NOT NULL THEN
        PERFORM :schema.wake_items(now_us, woken);
    END IF;
END
$$;
