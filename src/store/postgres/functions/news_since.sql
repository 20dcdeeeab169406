-- The news that the snapshot `until` contains and the snapshot `since` does not, behind a position, in the order of the primary key.
--   from_xid, from_seq  the position: the last entry that was read; '0' and 0 = the beginning
--   most                at most so many entries
--   with_own            also the news of the scheduler itself (kinds 2 and 6)
--
-- 1. A transaction is missing in a snapshot if it ran then, or had no id yet. So there are two parts.
-- 2. For each transaction that ran when `since` was taken and has ended by `until`: one probe of the index.
-- 3. For all later ids: one range of the index. A row is visited once, however long other transactions stay open.
-- 4. The position and the end of `since` make one bound of that range. With two bounds PostgreSQL might begin at the lower one.
-- Locks: none. Index: the primary key. Callers: schedule(), publish_books(), schedule_lone().
CREATE OR REPLACE FUNCTION :schema.news_since(since pg_snapshot, until pg_snapshot, from_xid xid8, from_seq bigint, most integer,
                                              with_own boolean) RETURNS SETOF :schema.news
LANGUAGE sql STABLE AS $$
    SELECT n.*
    FROM (SELECT o.*
          FROM pg_snapshot_xip(since) x (xid)
          CROSS JOIN LATERAL (SELECT * FROM :schema.news p WHERE p.xid = x.xid AND (with_own OR p.kind NOT IN (2, 6))) o
          WHERE pg_visible_in_snapshot(x.xid, until) AND (o.xid, o.seq) > (from_xid, from_seq)
          UNION ALL
          (SELECT l.* FROM :schema.news l
           WHERE (l.xid, l.seq) > (greatest(from_xid, pg_snapshot_xmax(since)),
                                   CASE WHEN from_xid >= pg_snapshot_xmax(since) THEN from_seq ELSE 0 END)
             AND l.xid < pg_snapshot_xmax(until) AND pg_visible_in_snapshot(l.xid, until) AND (with_own OR l.kind NOT IN (2, 6))
           ORDER BY l.xid, l.seq LIMIT most)) n
    ORDER BY n.xid, n.seq LIMIT most
$$;
