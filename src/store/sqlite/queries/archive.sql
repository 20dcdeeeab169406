-- The archive (docs/design/archive.md). Its tables lie in a second file, with the names and columns of those here.

-- name: read_archive_state
SELECT store_id, made, moved, coalesce(moved_at, 0), coalesce(lost_at, 0) FROM archive_state WHERE id = 1;

-- ?1 how often, ?2 when the file was missed, 0 = it was not
-- name: note_archive_made
UPDATE archive_state SET made = ?1, lost_at = coalesce(nullif(?2, 0), lost_at) WHERE id = 1;

-- ?1 executions, ?2 now
-- name: note_archive_move
UPDATE archive_state SET moved = moved + ?1, moved_at = ?2 WHERE id = 1;

-- The text that makes a table of the archive. ?1 its name
-- name: table_to_archive
SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1;

-- The next rows of the history, and whether their content may be archived. An execution stays while a step of its parent may need its
-- result, or while its own plan of children was not read. Ids begin with their time, so the bound ?2 ends the look at those that are too
-- young. ?1 behind this id, ?3 ended before, ?4 rows
-- name: archive_candidates
SELECT h.id, h.archived = 0 AND h.finished_at < ?3
             AND NOT EXISTS (SELECT 1 FROM child_steps s WHERE s.parent_id = h.id AND s.count IS NULL)
             AND NOT EXISTS (SELECT 1 FROM children c JOIN child_steps p ON p.parent_id = c.parent_id AND p.step = c.step
                             JOIN workflow_execution_queue q ON q.id = c.parent_id WHERE c.child_id = h.id)
FROM workflow_executions h
WHERE h.id > ?1 AND h.id < ?2 ORDER BY h.id LIMIT ?4;

-- name: is_archived
SELECT archived FROM workflow_executions WHERE id = ?1;

-- The step that ended with the execution is a row of its own in the archive.
-- name: mark_archived
UPDATE workflow_executions
SET archived = 1, step = NULL, step_status = NULL, step_attempt = NULL, step_failures = NULL, step_exit_code = NULL,
    step_started_at = NULL, step_output = NULL, step_variables = NULL, step_error_code = NULL, step_error = NULL
WHERE id = ?1 AND archived = 0;

-- name: mark_brought_back
UPDATE workflow_executions SET archived = 0 WHERE id = ?1 AND archived = 1;

-- name: read_params_to_archive
SELECT * FROM execution_params WHERE id = ?1;

-- name: read_steps_to_archive
SELECT * FROM workflow_node_executions WHERE execution_id = ?1;

-- In the order of the columns of workflow_node_executions.
-- name: read_last_step_to_archive
SELECT h.id, h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, NULL, h.step_started_at, h.finished_at, h.node_id,
       h.fence, NULL, NULL, h.step_output, h.step_variables, h.step_error_code, h.step_error, NULL
FROM workflow_executions h WHERE h.id = ?1 AND h.step IS NOT NULL;

-- name: read_attempts_to_archive
SELECT * FROM workflow_node_attempts WHERE execution_id = ?1;

-- name: read_actions_to_archive
SELECT * FROM workflow_actions WHERE execution_id = ?1;

-- name: read_events_to_archive
SELECT * FROM workflow_execution_events WHERE execution_id = ?1;

-- name: has_its_params
SELECT h.has_params = EXISTS (SELECT 1 FROM execution_params p WHERE p.id = h.id) FROM workflow_executions h WHERE h.id = ?1;

-- The row of the file of the archive itself. ?1 id of the store, ?2 number of the making
-- name: insert_archive_state
INSERT INTO archive_state (id, store_id, made) VALUES (1, ?1, ?2);

-- name: attach_archive
ATTACH ?1 AS archive;

-- The rows of either file go to the other one by these.
-- name: put_params
INSERT OR REPLACE INTO execution_params VALUES (?1, ?2);

-- name: put_steps
INSERT OR REPLACE INTO workflow_node_executions
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18);

-- name: put_attempts
INSERT OR REPLACE INTO workflow_node_attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: put_actions
INSERT OR REPLACE INTO workflow_actions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: put_events
INSERT OR REPLACE INTO workflow_execution_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- Readers see both files under the names of the tables. A row of the archive counts where its execution is archived.
-- A format of sqlite3_mprintf(): the name of the table three times, and its column with the id of the execution.
-- name: view_of_table
CREATE TEMP VIEW "%w" AS
SELECT * FROM main."%w"
UNION ALL
SELECT a.* FROM archive."%w" a CROSS JOIN main.workflow_executions h ON h.id = a."%w" AND h.archived = 1;
