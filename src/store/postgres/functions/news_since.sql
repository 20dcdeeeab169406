-- The news of transactions that the snapshot `until` contains and the snapshot `since` does not, behind a position, in the order of the
-- primary key, at most `most`; with_own: also that of the scheduler itself (kinds 2 and 6).
--
-- A transaction is missing in a snapshot if it ran then, or had no id yet. So there is one index probe for each transaction that ran
-- when `since` was taken and has ended by `until`, and one for all later ids: a row is visited once, however long
-- other transactions stay open. Of the later ones, the position and the end of `since` make one bound: with two, PostgreSQL might begin
-- at the lower one.
-- Locks: none. Index: the primary key. Callers: schedule(), publish_books().
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
