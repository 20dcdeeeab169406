-- Deletion of workspaces and workflows.

-- Items of a workspace that are held and that wait, and those of the latter that are parked. ?1 workspace. Indexes: queue_held,
-- queue_runnable, queue_delayed. The counters have the parked ones.
-- name: count_living
SELECT (SELECT count(*) FROM workflow_execution_queue h
        WHERE h.phase = 2 AND h.lane_id IN (SELECT a.base | ?1 FROM group_lanes a)),
       (SELECT count(*) FROM runnable_items r
        WHERE r.lane_id IN (SELECT a.base | ?1 FROM group_lanes a))
       + (SELECT count(*) FROM workflow_execution_queue w
          WHERE w.due_at IS NOT NULL AND w.waiting_for IS NULL AND w.lane_id IN (SELECT a.base | ?1 FROM group_lanes a)),
       (SELECT coalesce(sum(c.parked), 0) FROM lane_counters c WHERE c.workspace_id = ?1);

-- The ids of those that wait and are PENDING. ?1 workspace, ?2 limit
-- name: waiting_of_workspace
SELECT id FROM (SELECT r.id AS id FROM runnable_items r
                WHERE r.lane_id IN (SELECT a.base | ?1 FROM group_lanes a)
                UNION ALL
                SELECT w.id FROM workflow_execution_queue w
                WHERE w.due_at IS NOT NULL AND w.waiting_for IS NULL AND w.lane_id IN (SELECT a.base | ?1 FROM group_lanes a))
LIMIT ?2;

-- WAITING items of all workspaces, a bounded number behind ?1 due time and ?2 number. ?3 limit. Index: queue_waiting.
-- name: parked_window
SELECT due_at, number, workspace_id, id, waiting_for IS NOT NULL FROM workflow_execution_queue
WHERE due_at >= ?1 AND (due_at, number) > (?1, ?2) ORDER BY due_at, number LIMIT ?3;

-- name: pause_workspace
UPDATE workspaces SET paused = 1 WHERE id = ?1;

-- name: delete_workspace
DELETE FROM workspaces WHERE id = ?1;

-- name: insert_deleted_workspace
INSERT INTO deleted_workspaces (id, name, deleted_at) VALUES (?1, ?2, ?3);

-- By the primary key: firings have no index of workspaces. ?1 workspace
-- name: delete_firings_of_workspace
DELETE FROM schedule_firings WHERE schedule_id IN (SELECT s.id FROM schedules s) AND workspace_id = ?1;

-- name: delete_refusals_of_workspace
DELETE FROM schedule_refusals WHERE workspace_id = ?1;

-- name: delete_workflows_of
UPDATE workflow_definitions SET state = 2 WHERE workspace_id = ?1;

-- name: find_deleted_workspace
SELECT id FROM deleted_workspaces WHERE name = ?1 LIMIT 1;

-- The next rows of the history, and whether they are of a deleted workspace of the name. ?1 name, ?2 behind this id, ?3 limit
-- name: rows_to_erase
SELECT id, workspace_id IN (SELECT t.id FROM deleted_workspaces t WHERE t.name = ?1) FROM workflow_executions
WHERE id > ?2 ORDER BY id LIMIT ?3;

-- name: erase_keys
DELETE FROM idempotency_keys WHERE workspace_id IN (SELECT t.id FROM deleted_workspaces t WHERE t.name = ?1);

-- name: erase_workflows
DELETE FROM workflow_definitions WHERE workspace_id IN (SELECT t.id FROM deleted_workspaces t WHERE t.name = ?1);

-- name: note_erasure
UPDATE deleted_workspaces SET erased_at = ?2 WHERE name = ?1 AND erased_at IS NULL;

-- ?1 name, ?2 owner
-- name: workflow_exists
SELECT 1 FROM workflow_definitions WHERE name = ?1 AND workspace_id = ?2 AND state <> 2 LIMIT 1;

-- name: living_of_workflow
SELECT count(*) FROM workflow_execution_queue
WHERE definition_id IN (SELECT d.id FROM workflow_definitions d WHERE d.name = ?1 AND d.workspace_id = ?2);

-- name: set_workflow_state
UPDATE workflow_definitions SET state = ?3 WHERE name = ?1 AND workspace_id = ?2 AND state <> 2;

-- name: workflow_names_of
SELECT DISTINCT name FROM workflow_definitions WHERE state <> 2 AND workspace_id = ?1 LIMIT 1000;
