-- The rows of the runnable items, found by their lane. A condition on lane_id, rank and number uses the primary key of queue_runnable.
DROP VIEW IF EXISTS runnable_items;
CREATE VIEW runnable_items AS
SELECT r.lane_id, r.rank, r.number, q.id, q.definition_id, q.created_at, q.run_at, q.woken_at
FROM queue_runnable r CROSS JOIN workflow_execution_queue q
    ON q.number = r.number AND q.phase = 0 AND q.lane_id = r.lane_id AND q.rank = r.rank;
