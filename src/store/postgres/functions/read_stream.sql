-- Reads entries of the stream behind a position, and keeps it being written.
--   after_since, after_number  the position; since 0 = the reader begins
--   most                       entries
--   number_most                rows of the table that get their positions in this call
--   keep, margin               microseconds: STREAM_KEEP_US, STREAM_MARGIN_US in store/stream.h
--
-- 1. renew_stream() renews the time until which entries are written, when a quarter of `keep` has passed.
-- 2. number_stream() gives positions to committed rows without one. The lock on stream_state is held until the commit, so positions become
--    visible in their order, and a reader that has read one has read all before it.
-- 3. A call after the one that began the stream notes its own id in settled_xid. Every transaction that wrote while the stream was not
--    written has a smaller one, because it looked at stream_written_until after its first write. When all up to this id have ended, the
--    stream is settled.
-- 4. The position cannot be continued if its `since` is another one, or entries behind it are purged.
--
-- Returns a first row with kind NULL: number and at are the end of the stream and its since; is_reset, is_settling, and more: rows without
-- a position are left. Then the entries.
-- Locks: stream_state, if anything is written. Caller: read_stream (queries/stream.sql).
CREATE OR REPLACE FUNCTION :schema.read_stream(after_since bigint, after_number bigint, most integer, number_most integer, keep bigint,
                                               margin bigint)
RETURNS TABLE (number bigint, at bigint, kind text, id uuid, workspace text, workflow text, is_reset boolean, is_settling boolean,
               more boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    until constant bigint := coalesce(pg_sequence_last_value(':schema.stream_written_until'), 0);
    began boolean := false;
    state :schema.stream_state;
BEGIN
    IF until - margin - :schema.store_time() <= keep / 4 * 3 THEN
        began := :schema.renew_stream(keep, margin);
    END IF;
    more := :schema.number_stream(number_most);
    SELECT * INTO state FROM :schema.stream_state s WHERE s.id = 1;
    IF state.settled_xid IS NULL AND NOT began THEN
        UPDATE :schema.stream_state s SET settled_xid = pg_current_xact_id() WHERE s.id = 1 AND s.settled_xid IS NULL;
    END IF;
    number := coalesce(pg_sequence_last_value(':schema.stream_positions'), 0);
    at := state.since;
    is_reset := after_since <> state.since OR after_number < state.purged_to OR after_number > number;
    is_settling := state.settled_xid IS NULL OR pg_snapshot_xmin(pg_current_snapshot()) <= state.settled_xid;
    RETURN NEXT;
    IF NOT is_reset THEN
        RETURN QUERY
        SELECT n.number, n.at, n.kind, n.id, (SELECT w.name FROM :schema.workspaces w WHERE w.id = n.workspace_id),
               (SELECT d.name FROM :schema.workflow_definitions d
                WHERE d.id = coalesce((SELECT q.definition_id FROM :schema.workflow_execution_queue q WHERE q.id = n.id),
                                      (SELECT h.definition_id FROM :schema.workflow_executions h WHERE h.id = n.id))),
               false, false, false
        FROM (SELECT e.position - e.size + u.place AS number, e.at, e.kind, u.id, u.workspace_id
              FROM (SELECT * FROM :schema.stream_entries x WHERE x.position > after_number ORDER BY x.position LIMIT most) e
              CROSS JOIN LATERAL unnest(e.ids, e.workspaces) WITH ORDINALITY u (id, workspace_id, place)) n
        WHERE n.number > after_number ORDER BY n.number LIMIT most;
    END IF;
END
$$;
