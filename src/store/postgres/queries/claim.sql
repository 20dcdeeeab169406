-- Claim. The work is done by functions (migrations/0002), one round trip each.

-- $1 node, $2 group, $3 what is folded (0010: a snapshot, or 0), $4 first pass
-- name: next_work
SELECT k.ready, k.handed_over, k.due_at, k.requests, k.runs, k.paused, k.now_us FROM :schema.look($1, $2, $3::text, $4) k;

-- $1 node, $2 group, $3 what is folded, $4 first pass, $5 at most so many wake-ups. The columns of claim_items, then what is folded now
-- and whether something was left over.
-- name: claim_fresh
SELECT c.id, c.fence, c.workspace, c.workflow, c.version, c.definition_id, c.params, c.attempts, c.interruptions, c.handed_over,
       c.cancel_requested, c.created_at, c.run_at, c.dispatched_at, c.claimed_at, c.priority, c.lanes, c.more, c.first_pass, c.seen,
       c.left_over
FROM :schema.claim_fresh($1, $2, $3::text, $4, $5) c;

-- $1 node, $2 group, $3 limit, $4 what is folded, $5 first pass
-- name: claim_items
SELECT c.id, c.fence, c.workspace, c.workflow, c.version, c.definition_id, c.params, c.attempts, c.interruptions, c.handed_over,
       c.cancel_requested, c.created_at, c.run_at, c.dispatched_at, c.claimed_at, c.priority, c.lanes, c.more, c.first_pass
FROM :schema.claim($1, $2, $3, pg_snapshot_xmax(:schema.seen_snapshot($4)), $5) c;

-- What this node claimed and was never told: its fences only grow. The same columns. $1 node, $2 last fence that it knows, $3 last
-- id of that fence, $4 limit. Index: queue_held.
-- name: claims_in_doubt
SELECT q.id, q.fence, w.name, d.name, d.version, q.definition_id, p.params, q.attempts, q.interruptions,
       q.dispatched_at IS NOT NULL OR q.interruptions > 0, q.cancel_at IS NOT NULL, q.created_at, q.run_at, q.dispatched_at, q.claimed_at,
       q.priority, NULL, NULL, NULL
FROM :schema.workflow_execution_queue q JOIN :schema.workspaces w ON w.id = q.workspace_id
LEFT JOIN :schema.workflow_definitions d ON d.id = q.definition_id
LEFT JOIN :schema.execution_params p ON p.id = q.id
WHERE q.phase = 2 AND q.node_id = $1 AND (q.fence, q.id) > ($2, $3) ORDER BY q.fence, q.id LIMIT $4;

-- name: read_steps
SELECT s.execution_id, s.step, s.status, s.attempt, s.failures, s.exit_code, s.due_at, s.output, s.variables, s.error_code, s.error
FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY ($1) ORDER BY s.execution_id, s.step;

-- $2: also those that were passed on already, because the answer that passed them on was lost. What another has locked is passed
-- on the next time. Index: queue_requests, queue_held.
-- name: take_requests
UPDATE :schema.workflow_execution_queue q SET cancel_sent = true
WHERE q.id = ANY (ARRAY(
    SELECT r.id FROM :schema.workflow_execution_queue r
    WHERE r.node_id = $1 AND r.cancel_at IS NOT NULL AND (NOT r.cancel_sent OR $2) FOR NO KEY UPDATE SKIP LOCKED))
RETURNING q.id, q.fence;
