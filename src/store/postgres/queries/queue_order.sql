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

-- $1 workspace; behind $2 due time, $3 id; $4 limit. Index: queue_delayed. The order begins with waiting_for, which is NULL in
-- each row, because the index does.
-- name: queue_order_delayed
SELECT h.id, h.lane_id, h.due_at
FROM :schema.workspaces w CROSS JOIN :schema.group_lanes a
CROSS JOIN LATERAL (SELECT q.id, q.lane_id, q.due_at FROM :schema.workflow_execution_queue q
                    WHERE q.due_at IS NOT NULL AND q.waiting_for IS NULL AND q.lane_id = (a.base | w.id)
                      AND (q.due_at, q.id) > ($2, $3)
                    ORDER BY q.waiting_for, q.due_at, q.id LIMIT $4) h
WHERE w.name = $1 ORDER BY h.due_at, h.id LIMIT $4;

-- How many of a lane go before it. $1 lane, $2 rank, $3 id, $4 limit. Index: queue_runnable.
-- name: queue_order_ahead
SELECT count(*) FROM (SELECT FROM :schema.workflow_execution_queue q
                      WHERE q.due_at IS NULL AND q.phase = 0 AND q.lane_id = $1 AND (q.rank, q.id) < ($2, $3) LIMIT $4) f;

-- The rows of $1, in the order of the ids there.
-- name: queue_order_rows
SELECT e.id, e.workspace, e.workflow, e.version, e.status, e.pending_reason, e.waiting_for, :schema.rfc3339(e.due_at) AS due_at,
       e.priority, :schema.rfc3339(e.run_at) AS run_at, e.starts_refused, e.deferrals, e.handovers, e.node, e.fence, e.error_code, e.error,
       :schema.rfc3339(e.created_at) AS created_at, :schema.rfc3339(e.claimed_at) AS claimed_at,
       :schema.rfc3339(e.dispatched_at) AS dispatched_at, :schema.rfc3339(e.stuck_since) AS stuck_since,
       :schema.rfc3339(e.finished_at) AS finished_at, e.executor_group, e.idempotency_key, e.retry_of, e.traceparent,
       e.business_key, e.labels
FROM :schema.executions e WHERE e.id = ANY ($1) ORDER BY array_position($1, e.id);
