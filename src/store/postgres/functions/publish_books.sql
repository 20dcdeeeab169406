-- Folds news into the books and stores passes, under the epoch of the scheduler. Only news that the scheduler has read is folded.
--   since, until          a pass: see news_since(). NULL since: all that `until` contains
--   from_xid, from_seq    the position in the pass; '0' and 0 = its beginning. It spares the dead rows that an old snapshot keeps
--   most                  entries of this call
--   lane_ids, passes      the stride positions of these lanes
-- Returns one row: has_epoch (false: nothing was changed), the number of folded entries, and the last one. Fewer than `most`: the pass
-- ends.
--
-- 1. Read the entries of the chunk.
-- 2. Check the epoch. With something to write, the row of scheduler stays locked, so that a takeover waits for the commit.
-- 3. Delete the entries, and add them to the books, in one statement. So the sum of books and news is exact at each commit, and an entry
--    cannot count twice: a repeated call finds it deleted.
-- 4. In the same statement the numbers of held items in `claims` shrink, and empty sets are deleted.
-- 5. About once a minute shorten_claims() shortens old sets.
-- Locks: with something to write, the row of scheduler FOR SHARE, the entries, the books of their lanes, the claims of their sets. Caller:
-- publish_books (queries/schedule.sql).
CREATE OR REPLACE FUNCTION :schema.publish_books(own_node bigint, own_epoch bigint, since text, until text, from_xid text,
                                                 from_seq bigint, most integer, lane_ids bigint[], passes bigint[])
RETURNS TABLE (has_epoch boolean, folded integer, last_xid text, last_seq bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    begins constant pg_snapshot := coalesce(since, '1:1:');
    ends constant pg_snapshot := until;
    xids xid8[];
    seqs bigint[];
BEGIN
    SELECT array_agg(n.xid), array_agg(n.seq), count(*) INTO xids, seqs, folded
    FROM :schema.news_since(begins, ends, from_xid::xid8, from_seq, most, true) n;
    last_xid := xids[folded];
    last_seq := seqs[folded];
    has_epoch := :schema.has_epoch(own_node, own_epoch, folded > 0 OR cardinality(lane_ids) > 0);
    IF has_epoch AND (folded > 0 OR cardinality(lane_ids) > 0) THEN
        WITH entry AS (
            DELETE FROM :schema.news n USING unnest(xids, seqs) e (xid, seq) WHERE n.xid = e.xid AND n.seq = e.seq RETURNING n.*
        ), change AS (
            SELECT unnest(e.lanes) AS lane, unnest(e.runnable) AS runnable, unnest(e.waiting) AS waiting, unnest(e.held) AS held,
                   unnest(e.parked) AS parked, unnest(e.completed) AS completed, unnest(e.failed) AS failed,
                   unnest(e.cancelled) AS cancelled, NULL::bigint AS pass
            FROM entry e
            UNION ALL
            SELECT p.lane, 0, 0, 0, 0, 0, 0, 0, p.pass FROM unnest(lane_ids, passes) p (lane, pass)
        ), total AS (
            SELECT c.lane, coalesce(sum(c.runnable), 0) AS runnable, coalesce(sum(c.waiting), 0) AS waiting,
                   coalesce(sum(c.held), 0) AS held, coalesce(sum(c.parked), 0) AS parked, coalesce(sum(c.completed), 0) AS completed,
                   coalesce(sum(c.failed), 0) AS failed, coalesce(sum(c.cancelled), 0) AS cancelled, max(c.pass) AS pass
            FROM change c GROUP BY c.lane
        ), set_left AS (
            SELECT f.node_id, f.fence, sum(f.items) AS items
            FROM (SELECT e.node_id, unnest(e.fences) AS fence, unnest(e.left_fences) AS items FROM entry e WHERE e.fences IS NOT NULL) f
            GROUP BY f.node_id, f.fence
        ), set_over AS (
            DELETE FROM :schema.claims c USING set_left l WHERE c.node_id = l.node_id AND c.fence = l.fence AND c.held <= l.items
        ), set_smaller AS (
            UPDATE :schema.claims c SET held = c.held - l.items
            FROM set_left l WHERE c.node_id = l.node_id AND c.fence = l.fence AND c.held > l.items
        )
        INSERT INTO :schema.books AS b
            (lane_id, workspace_id, group_id, runnable, waiting, held, parked, completed, failed, cancelled, pass)
        SELECT t.lane, (t.lane & 2147483647)::integer, (t.lane >> 47)::integer, t.runnable, t.waiting, t.held, t.parked, t.completed,
               t.failed, t.cancelled, coalesce(t.pass, (SELECT o.pass FROM :schema.books o WHERE o.lane_id = t.lane), 0)
        FROM total t
        ON CONFLICT (lane_id) DO UPDATE
        SET runnable = b.runnable + excluded.runnable, waiting = b.waiting + excluded.waiting, held = b.held + excluded.held,
            parked = b.parked + excluded.parked, completed = b.completed + excluded.completed, failed = b.failed + excluded.failed,
            cancelled = b.cancelled + excluded.cancelled, pass = excluded.pass;
        PERFORM :schema.shorten_claims(n.now_us) FROM (SELECT :schema.store_time() AS now_us) n
        WHERE n.now_us / 1000000 % 60 = 0; -- about once a minute: it reads all claims, also dead versions of them
    END IF;
    RETURN NEXT;
END
$$;
