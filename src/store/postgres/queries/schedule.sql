-- The scheduler's role and rounds, the books, and the reads of a node: one function each (functions/), one round trip each.

-- $1 act, $2 node, $3 epoch, $4 lease, $5 a node without its processes, $6 reason, $7 pooled, $8 epoch and $9 renewals of a silent
-- holder, $10 the server that the caller has known, $11 for how long
-- name: role
SELECT r.outcome, r.epoch, r.node_id, r.node, r.since, r.expires_at, r.now_us, r.is_free, r.takeovers_hour, r.renewals,
       r.own_lease, r.server
FROM :schema.role($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) r;

-- The parameters of schedule(), in its order: $1 node, $2 epoch, $3 lease, $4 waits for the lock, $5 snapshot, $6 timeline, $7 snapshot,
-- $8 transaction and $9 entry of the news that is left, $10 items, $11 their nodes, $12 handed over, $13 skip locked rows, $14 lanes to
-- read, $15 from rank, $16 and item, $17 how many, $18 needs, $19 orphans, $20 limits
-- name: schedule
SELECT r.tag, r.place, r.n1, r.n2, r.n3, r.n4, r.n5, r.n6, r.n7, r.n8, r.n9, r.flag, r.id, r.name, r.data,
       r.places, r.plain, r.list1, r.list2, r.list3, r.id_list
FROM :schema.schedule($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, true) r;

-- The parameters of schedule_lone(), in its order: $1 node, $2 epoch, $3 snapshot, $4 timeline, $5 limits, $6 to $9 the offer: its node,
-- kinds of lanes, workspaces and their slots
-- name: schedule_lone
SELECT r.tag, r.place, r.n1, r.n2, r.n3, r.n4, r.n5, r.n6, r.n7, r.n8, r.n9, r.flag, r.id, r.name, r.data,
       r.places, r.plain, r.list1, r.list2, r.list3, r.id_list
FROM :schema.schedule_lone($1, $2, $3, $4, $5, $6, $7, $8, $9, true) r;

-- $1 node, $2 epoch, $3 from snapshot, $4 to snapshot, $5 from transaction, $6 and entry, $7 limit, $8 lanes, $9 their passes
-- name: publish_books
SELECT b.has_epoch, b.folded, b.last_xid, b.last_seq FROM :schema.publish_books($1, $2, $3, $4, $5, $6, $7, $8, $9) b;

-- $1 node, $2 fence, $3 item, $4 limit
-- name: inbox
SELECT i.id, i.fence, i.workspace_id, i.definition_id, i.params, i.starts_refused, i.deferrals, i.interruptions,
       i.handed_over,
       i.cancel_requested, i.created_at, i.run_at, i.dispatched_at, i.claimed_at, i.priority, i.weight, i.epoch, i.scheduler_id,
       i.scheduler, i.since, i.expires_at, i.now_us, i.is_free, i.takeovers_hour, i.renewals, i.lease,
       i.server, i.traceparent, i.assigned_before, i.interruptions_at_park, i.woken_at, i.is_suspect,
       i.lost_a_node, i.signals, i.workspace
FROM :schema.inbox($1, $2, $3, $4) i;

-- The names of workspaces and of definitions, with a weight and a version. $1 workspaces, $2 definitions
-- name: read_names
SELECT false, w.id, w.name, w.weight FROM :schema.workspaces w WHERE w.id = ANY ($1)
UNION ALL
SELECT true, d.id, d.name, d.version FROM :schema.workflow_definitions d WHERE d.id = ANY ($2);

-- name: read_steps
SELECT s.execution_id, s.step, s.status, s.attempt, s.failures, s.exit_code, s.due_at, s.output, s.variables, s.error_code, s.error,
       s.signal, s.finished_at
FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY ($1) ORDER BY s.execution_id, s.step;

-- $2: also requests that were passed on before, because the answer that passed them on was lost. A row that another transaction has
-- locked is left for the next call. Index: queue_requests.
-- name: take_requests
UPDATE :schema.workflow_execution_queue q SET cancel_sent = true
WHERE q.id = ANY (ARRAY(
    SELECT r.id FROM :schema.workflow_execution_queue r
    WHERE r.node_id = $1 AND r.cancel_at IS NOT NULL AND (NOT r.cancel_sent OR $2) FOR NO KEY UPDATE SKIP LOCKED))
RETURNING q.id, q.fence;
