-- The logs of attempts. Primary key: execution, step, attempt, position.

-- A chunk of an execution that is gone is not written; one that is there stays. Chunks of the same attempts between $8 and $9 are
-- removed. $1 executions, $2 steps, $3 attempts, $4 positions, $5 offsets, $6 bytes, $7 lines, $8 cut from, $9 cut to
-- name: write_logs
WITH chunk AS (
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        c (execution_id, step, attempt, position, output_offset, output_bytes, lines, cut_from, cut_to)
), cut AS (
    DELETE FROM :schema.workflow_node_logs l USING chunk c
    WHERE l.execution_id = c.execution_id AND l.step = c.step AND l.attempt = c.attempt
      AND l.position >= c.cut_from AND l.position < c.cut_to
)
INSERT INTO :schema.workflow_node_logs
    (execution_id, step, attempt, position, written_at, output_offset, output_bytes, lines)
SELECT c.execution_id, c.step, c.attempt, c.position, :schema.store_time(), c.output_offset, c.output_bytes, c.lines
FROM chunk c
WHERE EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = c.execution_id)
   OR EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = c.execution_id)
ON CONFLICT (execution_id, step, attempt, position) DO NOTHING;

-- $1 execution, $2 limit
-- name: list_logs
SELECT l.step, l.attempt, max(l.position) FROM :schema.workflow_node_logs l WHERE l.execution_id = $1
GROUP BY l.step, l.attempt ORDER BY l.step, l.attempt LIMIT $2;

-- $4 behind this position, $5 limit
-- name: read_log
SELECT l.position, l.output_offset, l.output_bytes, l.lines FROM :schema.workflow_node_logs l
WHERE l.execution_id = $1 AND l.step = $2 AND l.attempt = $3 AND l.position > $4 ORDER BY l.position LIMIT $5;

-- The oldest chunks that were written before $1. Locks: the removed rows; another node that removes them too is not awaited. $2 limit
-- name: purge_logs
DELETE FROM :schema.workflow_node_logs l USING (
    SELECT o.execution_id, o.step, o.attempt, o.position FROM :schema.workflow_node_logs o
    WHERE o.written_at < $1 ORDER BY o.written_at LIMIT $2 FOR UPDATE SKIP LOCKED
) old
WHERE l.execution_id = old.execution_id AND l.step = old.step AND l.attempt = old.attempt AND l.position = old.position;

-- One report for each step: those of ended attempts are removed. One that is not held under its fence, or older than that in the table,
-- is not written. Locks: the rows of the steps, in their order. $1 executions, $2 steps, $3 attempts, $4 fences, $5 times, $6 of 10,000,
-- or -1, $7 texts, $8 whether they are over
-- name: write_progress
WITH report AS MATERIALIZED (
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) r (execution_id, step, attempt, fence, at, fraction, text, is_over)
), over AS (
    DELETE FROM :schema.step_progress p USING report r
    WHERE r.is_over AND p.execution_id = r.execution_id AND p.step = r.step AND p.attempt = r.attempt AND p.fence = r.fence
)
INSERT INTO :schema.step_progress AS p (execution_id, step, attempt, fence, at, fraction, text)
SELECT r.execution_id, r.step, r.attempt, r.fence, r.at, nullif(r.fraction, -1), r.text
FROM report r JOIN :schema.workflow_execution_queue q ON q.id = r.execution_id AND q.fence = r.fence AND q.phase = 2
WHERE NOT r.is_over
ORDER BY r.execution_id, r.step
ON CONFLICT (execution_id, step) DO UPDATE
SET attempt = excluded.attempt, fence = excluded.fence, at = excluded.at, fraction = excluded.fraction, text = excluded.text
WHERE (excluded.fence, excluded.attempt) >= (p.fence, p.attempt);
