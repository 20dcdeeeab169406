-- Pending executions of a workspace in the order in which they start (store/queue_order.h). Each lane is read along its index, no
-- further than a page needs; the entries of all lanes are then merged.

-- $1 workspace; behind $2 rank, $3 id; $4 limit. Index: queue_runnable, where held rows stand, too.
-- name: queue_order_runnable
SELECT h.id, h.lane_id, h.rank
FROM :schema.workspaces w CROSS JOIN :schema.group_lanes a
CROSS JOIN LATERAL (SELECT q.id, q.lane_id, q.rank FROM :schema.workflow_execution_queue q
                    WHERE q.due_at IS NULL AND q.phase = 0 AND q.lane_id = (a.base | w.id) AND (q.rank, q.id) > ($2, $3)
                    ORDER BY q.rank, q.id LIMIT $4) h
WHERE w.name = $1 ORDER BY h.rank, h.id LIMIT $4;

-- $1 workspace; behind $2 due time, $3 id; $4 limit. Index: queue_delayed.
-- name: queue_order_delayed
SELECT h.id, h.lane_id, h.due_at
FROM :schema.workspaces w CROSS JOIN :schema.group_lanes a
CROSS JOIN LATERAL (SELECT q.id, q.lane_id, q.due_at FROM :schema.workflow_execution_queue q
                    WHERE q.due_at IS NOT NULL AND q.waiting_for IS NULL AND q.lane_id = (a.base | w.id)
                      AND (q.due_at, q.id) > ($2, $3)
                    ORDER BY q.due_at, q.id LIMIT $4) h
WHERE w.name = $1 ORDER BY h.due_at, h.id LIMIT $4;

-- How many of a lane go before it. $1 lane, $2 rank, $3 id, $4 limit. Index: queue_runnable.
-- name: queue_order_ahead
SELECT count(*) FROM (SELECT FROM :schema.workflow_execution_queue q
                      WHERE q.due_at IS NULL AND q.phase = 0 AND q.lane_id = $1 AND (q.rank, q.id) < ($2, $3) LIMIT $4) f;
