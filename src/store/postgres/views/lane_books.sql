-- The counters of each lane: the books that the scheduler has folded, and the news since then. They equal the rows at every commit.
CREATE OR REPLACE VIEW :schema.lane_books AS
SELECT b.lane_id, (b.lane_id >> 47)::integer AS group_id, (b.lane_id & 2147483647)::integer AS workspace_id,
       sum(b.runnable)::bigint AS runnable, sum(b.waiting)::bigint AS waiting, sum(b.held)::bigint AS held, sum(b.parked)::bigint AS parked,
       sum(b.completed)::bigint AS completed, sum(b.failed)::bigint AS failed, sum(b.cancelled)::bigint AS cancelled
FROM (SELECT k.lane_id, k.runnable, k.waiting, k.held, k.parked, k.completed, k.failed, k.cancelled FROM :schema.books k
      UNION ALL
      SELECT u.lane_id, coalesce(u.runnable, 0), coalesce(u.waiting, 0), coalesce(u.held, 0), coalesce(u.parked, 0),
             coalesce(u.completed, 0), coalesce(u.failed, 0), coalesce(u.cancelled, 0)
      FROM :schema.news n
      CROSS JOIN LATERAL unnest(n.lanes, n.runnable, n.waiting, n.held, n.parked, n.completed, n.failed, n.cancelled)
                         u (lane_id, runnable, waiting, held, parked, completed, failed, cancelled)
      WHERE n.lanes IS NOT NULL) b
GROUP BY b.lane_id;
