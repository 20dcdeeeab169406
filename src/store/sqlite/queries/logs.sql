-- The logs of attempts. Primary key: execution, step, attempt, position.

-- A chunk of an execution that is gone is not written; one that is there stays. ?4 position, ?5 written at, ?6 offset, ?7 bytes
-- name: write_log
INSERT OR IGNORE INTO workflow_node_logs
    (execution_id, step, attempt, position, written_at, output_offset, output_bytes, lines)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
WHERE EXISTS (SELECT 1 FROM workflow_execution_queue WHERE id = ?1) OR EXISTS (SELECT 1 FROM workflow_executions WHERE id = ?1);

-- ?4 from this position on, ?5 up to before this one
-- name: cut_log
DELETE FROM workflow_node_logs WHERE execution_id = ?1 AND step = ?2 AND attempt = ?3 AND position >= ?4 AND position < ?5;

-- ?2 limit
-- name: list_logs
SELECT step, attempt, max(position) FROM workflow_node_logs WHERE execution_id = ?1 GROUP BY step, attempt
ORDER BY step, attempt LIMIT ?2;

-- ?4 behind this position, ?5 limit
-- name: read_log
SELECT position, output_offset, output_bytes, lines FROM workflow_node_logs
WHERE execution_id = ?1 AND step = ?2 AND attempt = ?3 AND position > ?4 ORDER BY position LIMIT ?5;

-- name: has_old_logs
SELECT EXISTS (SELECT 1 FROM workflow_node_logs WHERE written_at < ?1);

-- The oldest chunks that were written before ?1; ?2 limit
-- name: old_logs
SELECT execution_id, step, attempt, position FROM workflow_node_logs WHERE written_at < ?1 ORDER BY written_at LIMIT ?2;

-- name: purge_log
DELETE FROM workflow_node_logs WHERE execution_id = ?1 AND step = ?2 AND attempt = ?3 AND position = ?4;

-- --- progress, by execution and step ---

-- The report of an attempt that is not held, or older than the one in the store, is not written. ?3 attempt, ?4 fence, ?5 time, ?6 of
-- 10,000, or -1, ?7 text
-- name: write_progress
INSERT INTO step_progress (execution_id, step, attempt, fence, at, fraction, text)
SELECT ?1, ?2, ?3, ?4, ?5, nullif(?6, -1), ?7
WHERE EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = ?1 AND q.fence = ?4 AND q.phase = 2)
ON CONFLICT (execution_id, step) DO UPDATE
SET attempt = excluded.attempt, fence = excluded.fence, at = excluded.at, fraction = excluded.fraction, text = excluded.text
WHERE (excluded.fence, excluded.attempt) >= (step_progress.fence, step_progress.attempt);

-- ?3 attempt, ?4 fence
-- name: end_progress
DELETE FROM step_progress WHERE execution_id = ?1 AND step = ?2 AND attempt = ?3 AND fence = ?4;

-- name: purge_progress
DELETE FROM step_progress WHERE execution_id = ?1;
