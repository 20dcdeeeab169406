-- Pending executions of a workspace in the order in which they start (store/queue_order.h). A lane is read along its index, no further
-- than a page needs; the entries of all lanes are then merged. A whole set that was enqueued at once has one
-- rank. So the rest of that rank and the ranks above it are two parts, each along the index, as in lane_heads.

-- ?1 workspace; behind ?2 rank, ?3 number; ?4 limit. Index: queue_runnable.
-- name: queue_order_runnable
SELECT q.id, q.lane_id, q.rank, q.number
FROM workspaces w CROSS JOIN group_lanes a CROSS JOIN workflow_execution_queue q
     ON q.number IN (SELECT i.number FROM runnable_items i WHERE i.lane_id = a.base | w.id AND (i.rank, i.number) > (?2, ?3)
                     ORDER BY i.rank, i.number LIMIT ?4)
WHERE w.name = ?1 ORDER BY q.rank, q.number LIMIT ?4;

-- ?1 workspace; behind ?2 due time, ?3 number; ?4 limit. Index: queue_delayed.
-- name: queue_order_delayed
SELECT q.id, q.lane_id, q.due_at, q.number
FROM workspaces w CROSS JOIN group_lanes a CROSS JOIN workflow_execution_queue q
     ON q.number IN (SELECT * FROM (SELECT i.number FROM workflow_execution_queue i INDEXED BY queue_delayed
                                    WHERE i.lane_id = a.base | w.id AND i.waiting_for IS NULL AND i.due_at = ?2 AND i.number > ?3
                                    ORDER BY i.number LIMIT ?4)
                     UNION ALL
                     SELECT * FROM (SELECT i.number FROM workflow_execution_queue i INDEXED BY queue_delayed
                                    WHERE i.lane_id = a.base | w.id AND i.waiting_for IS NULL AND i.due_at > ?2
                                    ORDER BY i.due_at, i.number LIMIT ?4))
WHERE w.name = ?1 ORDER BY q.due_at, q.number LIMIT ?4;
