-- The counters of each workspace over all its lanes.
CREATE OR REPLACE VIEW :schema.workspace_books AS
SELECT b.workspace_id, sum(b.runnable)::bigint AS runnable, sum(b.waiting)::bigint AS waiting, sum(b.held)::bigint AS held,
       sum(b.parked)::bigint AS parked,
       sum(b.completed)::bigint AS completed, sum(b.failed)::bigint AS failed, sum(b.cancelled)::bigint AS cancelled
FROM :schema.lane_books b GROUP BY b.workspace_id;
