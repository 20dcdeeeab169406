-- Reads entries of the stream behind a position, and keeps it being written.
--   after_since, after_number  the position; since 0 = the reader begins
--   most                       entries
--   number_most                rows of the table that get their positions in this call
--   keep, margin               microseconds: STREAM_KEEP_US, STREAM_MARGIN_US in store/stream.h
--
-- 1. renew_stream() renews the time until which entries are written, when a quarter of `keep` has passed.
-- 2. number_stream() gives positions to committed rows without one. The lock on stream_state is held until the commit, so positions become
--    visible in their order, and a reader that has read one has read all before it.
-- 3. A call that found the stream being written notes its own id in settled_xid. Every transaction that wrote while the stream was not
--    written has a smaller one, because it looked at stream_written_until after its first write. When all up to this id have ended, the
--    stream is settled.
-- 4. Only rows with entries that are wanted are taken apart: one row may hold those of a thousand executions.
-- 5. The position cannot be continued if its `since` is another one, or entries behind it are purged. Each statement has a snapshot of its
--    own, so that is read after the entries: what a purge has removed before they were read is noted by then.
--
-- Returns the entries, and a last row with kind NULL. Of that row, number and at are the end of the stream and its since. is_reset: the
-- entries do not count. is_settling: see there. more: rows without a position are left, or the stream is not written before the next call.
-- Locks: stream_state, if anything is written. Caller: read_stream (queries/stream.sql).
CREATE OR REPLACE FUNCTION :schema.read_stream(after_since bigint, after_number bigint, most integer, number_most integer, keep bigint,
                                               margin bigint)
RETURNS TABLE (number bigint, at bigint, kind text, id uuid, workspace_id integer, workspace text, workflow text, is_reset boolean,
               is_settling boolean, more boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    until constant bigint := coalesce(pg_sequence_last_value(':schema.stream_written_until'), 0);
    left_us constant bigint := until - margin - :schema.store_time();
    began boolean := false;
    last  bigint;
    state :schema.stream_state;
BEGIN
    SELECT * INTO state FROM :schema.stream_state s WHERE s.id = 1;
    IF left_us <= keep / 4 * 3 OR :schema.stream_is_foreign(state) THEN
        began := :schema.renew_stream(keep, margin);
    END IF;
    more := :schema.number_stream(number_most) OR began;
    IF left_us > 0 AND NOT began AND state.settled_xid IS NULL THEN
        UPDATE :schema.stream_state s SET settled_xid = pg_current_xact_id() WHERE s.id = 1 AND s.settled_xid IS NULL;
    END IF;
    SELECT * INTO state FROM :schema.stream_state s WHERE s.id = 1;
    last := coalesce(pg_sequence_last_value(':schema.stream_positions'), 0);
    IF after_since = state.since AND after_number BETWEEN state.purged_to AND last THEN
        RETURN QUERY
        SELECT n.number, n.at, n.kind, n.id, n.workspace_id, (SELECT w.name FROM :schema.workspaces w WHERE w.id = n.workspace_id),
               (SELECT d.name FROM :schema.workflow_definitions d
                WHERE d.id = coalesce((SELECT q.definition_id FROM :schema.workflow_execution_queue q WHERE q.id = n.id),
                                      (SELECT h.definition_id FROM :schema.workflow_executions h WHERE h.id = n.id))),
               false, false, false
        FROM (SELECT e.position - e.size + u.place AS number, e.at, e.kind, u.id, u.workspace_id
              FROM (SELECT x.position, x.size, x.at, x.kind, x.ids, x.workspaces,
                           sum(x.behind) OVER (ORDER BY x.position) - x.behind AS entries_before
                    FROM (SELECT y.*, least(y.size, y.position - after_number) AS behind FROM :schema.stream_entries y
                          WHERE y.position > after_number ORDER BY y.position LIMIT most) x) e
              CROSS JOIN LATERAL unnest(e.ids, e.workspaces) WITH ORDINALITY u (id, workspace_id, place)
              WHERE e.entries_before < most) n
        WHERE n.number > after_number ORDER BY n.number LIMIT most;
        SELECT * INTO state FROM :schema.stream_state s WHERE s.id = 1;
    END IF;
    number := last;
    at := state.since;
    is_reset := after_since <> state.since OR after_number < state.purged_to OR after_number > last;
    is_settling := state.settled_xid IS NULL OR pg_snapshot_xmin(pg_current_snapshot()) <= state.settled_xid;
    RETURN NEXT;
END
$$;
