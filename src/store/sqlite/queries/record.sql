-- Record: the reports of engines. Every statement is conditional on the fence. Found by primary key.

-- name: find_item
SELECT status, fence, lane_id, workspace_id, phase, cancel_at, node_id, error_code, interruptions, rank, deferrals, signals
FROM workflow_execution_queue WHERE id = ?1;

-- Of an item without a node, of which nothing can run: whether its cancel is requested. Its steps ended with the former node, and its
-- fence has grown. No row: a node has it, or a service outside may have started it. ?1 id
-- name: left_cancelled
SELECT cancel_at IS NOT NULL FROM workflow_execution_queue
WHERE id = ?1 AND phase = 2 AND node_id = 0 AND (lane_id >> 31) & 1 = 0
  AND NOT EXISTS (SELECT 1 FROM engine_targets t WHERE t.id = target_id AND t.engine <> 'in_process');

-- name: ended_status
SELECT status FROM workflow_executions WHERE id = ?1;

-- Not after the first step of this claim. A set of steps may be on record before the start, and durations of two sets differ by the wait of
-- each set. ?3 when the engine reported the start
-- name: dispatch_item
UPDATE workflow_execution_queue
SET status = 'DISPATCHED',
    dispatched_at = coalesce(dispatched_at,
                             min(max(?3, coalesce(claimed_at, 0)),
                                 coalesce((SELECT min(s.started_at) FROM workflow_node_executions s
                                           WHERE s.execution_id = ?1 AND s.fence = ?2), 9223372036854775807)))
WHERE id = ?1 AND fence = ?2 AND status = 'CLAIMED';

-- Back to PENDING. ?3 phase, ?4 due, ?5 refused starts, ?6 deferrals, ?7 code, ?8 error
-- name: put_back_item
UPDATE workflow_execution_queue
SET status = 'PENDING', phase = ?3, due_at = CASE WHEN ?3 = 1 THEN ?4 END, node_id = 0, target_id = 0, claimed_at = NULL,
    starts_refused = starts_refused + ?5, deferrals = deferrals + ?6,
    error_code = coalesce(?7, error_code), error = coalesce(?8, error)
WHERE id = ?1 AND fence = ?2 AND status = 'CLAIMED';

-- Whether another live node of its group has all handlers of an item. ?1 id, ?2 now
-- name: item_has_worker
SELECT 1 FROM workflow_execution_queue q JOIN executor_groups g ON g.id = q.lane_id >> 47
JOIN workflow_definitions d ON d.id = q.definition_id JOIN nodes n ON n.recovered_at IS NULL AND n.executor_group = g.name
WHERE q.id = ?1 AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
  AND n.expires_at > ?2 AND n.id <> q.node_id
  AND NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o))
LIMIT 1;

-- Running work that its node gives back: the slot stays taken, the next claim takes it over. ?3 the new fence
-- name: give_back_item
UPDATE workflow_execution_queue
SET status = 'CLAIMED', node_id = 0, fence = ?3, interruptions = interruptions + 1
WHERE id = ?1 AND fence = ?2 AND phase = 2;

-- Items of a set that a node holds (held_items.h); `parameter_rows` has their ids and fences. The last three columns are for a park, which
-- `dispatched` marks. They are whether its start is an event, the first start of a step under the claim, and whether its row alone has
-- its last wake.
-- name: find_held
SELECT g.at, q.number, q.lane_id, q.node_id, q.rank, q.status = 'CLAIMED', q.claimed_at, q.dispatched_at, q.cancel_at IS NOT NULL,
       q.signals, q.interruptions > 0,
       g.dispatched AND q.interruptions > 0 AND q.status = 'DISPATCHED'
       AND EXISTS (SELECT 1 FROM workflow_execution_events t WHERE t.execution_id = q.id AND t.event = 'dispatch' AND t.fence = q.fence),
       CASE WHEN g.dispatched AND q.dispatched_at IS NULL
            THEN (SELECT min(s.started_at) FROM workflow_node_executions s WHERE s.execution_id = q.id AND s.fence = q.fence) END,
       q.parked_fence IS NOT NULL
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.id = g.id AND q.fence = g.fence
WHERE q.phase = 2;

-- The end of the claims that a set of parks ends, with the times of the claims. A start that is an event already has no time.
-- `parameter_rows` has as status the kind of the wait and as error its end. ?1 now
-- name: add_park_events
INSERT INTO workflow_execution_events (execution_id, seq, at, event, node_id, fence, reason, detail, claimed_at, dispatched_at)
SELECT g.id, (SELECT coalesce(max(t.seq), 0) + 1 FROM workflow_execution_events t WHERE t.execution_id = g.id), ?1, 'park', g.node_id,
       g.fence, g.status, g.error, g.claimed_at, g.started_at
FROM parameter_rows g;

-- Parks of a set, with the columns of `parameter_rows` as above. An error of an earlier start is past, and the item is
-- no longer one that waits for a handler. A step that waits for its next attempt by a record of an
-- earlier fence may have begun that attempt without a record. Then the interruptions since the last park go on counting
-- (docs/design/waiting.md, 4).
-- name: park_items
UPDATE workflow_execution_queue
SET status = 'WAITING', phase = 3, waiting_for = g.status, due_at = g.due_at, dispatched_at = g.dispatched_at, node_id = 0, target_id = 0,
    claimed_at = NULL, error_code = NULL, error = NULL, starts_refused = 0, deferrals = 0, interruptions = interruptions + 1,
    interruptions_at_park = 1 + CASE
        WHEN interruptions > interruptions_at_park AND EXISTS (
            SELECT 1 FROM workflow_node_executions s
            WHERE s.execution_id = g.id AND s.status = 'WAITING' AND s.fence < g.fence
              AND (s.error_code IS NOT NULL OR s.step = 'state'))
        THEN interruptions_at_park ELSE interruptions END,
    parked_fence = NULL, stuck_at = NULL, signals_sent = signals
FROM parameter_rows g
WHERE workflow_execution_queue.number = g.number;

-- Ends of a set (ends.h); `parameter_rows` has their ids and fences. The last column: whether any step has a row of its own.
-- name: find_ends
SELECT g.at, q.number, q.lane_id, q.node_id, q.phase, q.status = 'CLAIMED', q.claimed_at, q.dispatched_at, q.interruptions,
       EXISTS (SELECT 1 FROM workflow_node_executions e WHERE e.execution_id = q.id)
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.id = g.id AND q.fence = g.fence;

-- Of those that have such rows: whether the step that ends with them has one, and the first start of a step under the fence.
-- name: find_steps_of_ends
SELECT g.number, EXISTS (SELECT 1 FROM workflow_node_executions e WHERE e.execution_id = g.id AND e.step = g.step),
       (SELECT min(e.started_at) FROM workflow_node_executions e WHERE e.execution_id = g.id AND e.fence = g.fence)
FROM parameter_rows g;

-- `parameter_rows` has the numbers of the rows, their ends and times, and steps that have no rows of their own. ?1 now
-- name: end_items
INSERT INTO workflow_executions
    (id, lane_id, workspace_id, definition_id, status, priority, run_at, starts_refused, deferrals, handovers, interruptions, fence,
     node_id, has_params, created_at, claimed_at, dispatched_at, finished_at, idempotency_key, traceparent, retry_of, error_code,
     error, step, step_status, step_attempt, step_failures, step_exit_code, step_started_at, step_output, step_variables, step_error_code,
     step_error, woken_at, parked_fence, restarted_at)
SELECT q.id, q.lane_id, q.workspace_id, q.definition_id, g.status, q.priority, q.run_at, q.starts_refused + g.refused, q.deferrals,
       q.handovers, q.interruptions, q.fence, q.node_id, q.has_params, q.created_at, q.claimed_at, g.dispatched_at, ?1,
       q.idempotency_key, q.traceparent, q.retry_of,
       CASE WHEN g.status <> 'COMPLETED' THEN coalesce(g.error_code, q.error_code) END,
       CASE WHEN g.status <> 'COMPLETED' THEN coalesce(g.error, q.error) END,
       g.step, g.step_status, g.step_attempt, g.step_failures, g.step_exit_code, g.step_started_at,
       g.step_output, g.step_variables, g.step_error_code, g.step_error, CASE WHEN q.parked_fence IS NOT NULL THEN q.woken_at END,
       q.parked_fence, g.started_at
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number;

-- The entries of those that end while they are runnable; only assignments leave theirs.
-- name: forget_runnable
DELETE FROM queue_runnable WHERE (lane_id, rank, number) IN
    (SELECT q.lane_id, q.rank, q.number FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number
     WHERE q.phase = 0);

-- name: delete_items
DELETE FROM workflow_execution_queue WHERE number IN (SELECT g.number FROM parameter_rows g);

-- A final step is never rewritten. A later attempt begins anew. A node that goes on with the attempt of another node did not start
-- it. ?3 status, ?4 attempt, ?5 failures, ?6 exit code, ?7 due, ?8 now, ?9 final, ?10 node,
-- ?11 fence, ?12 output, ?13 variables, ?14 code, ?15 error, ?16 microseconds since the attempt began; -1 = it began with the execution;
-- ?17 signal, ?18 when the engine reported it. A start step that ends keeps its plan, if the duty of children has not read it: children
-- that are left start all the same.
-- name: write_step
INSERT INTO workflow_node_executions
    (execution_id, step, status, attempt, failures, exit_code, due_at, started_at, finished_at, node_id, fence, output, variables,
     error_code, error, signal)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
        coalesce((SELECT CASE WHEN ?16 < 0 THEN q.dispatched_at
                              ELSE max(?8 - ?16, coalesce(q.claimed_at, 0), coalesce(q.dispatched_at, 0)) END
                  FROM workflow_execution_queue q WHERE q.id = ?1), ?8 - max(?16, 0)),
        CASE WHEN ?9 THEN coalesce((SELECT max(?18, q.claimed_at) FROM workflow_execution_queue q WHERE q.id = ?1), ?8) END,
        ?10, ?11, ?12, ?13, ?14, ?15, ?17)
ON CONFLICT (execution_id, step) DO UPDATE
SET status = excluded.status, attempt = excluded.attempt, failures = excluded.failures, exit_code = excluded.exit_code,
    due_at = excluded.due_at, finished_at = max(excluded.finished_at, started_at), node_id = excluded.node_id, fence = excluded.fence,
    output = excluded.output,
    variables = CASE WHEN excluded.finished_at IS NOT NULL AND signal = 'children:' || step THEN coalesce(excluded.variables, variables)
                     ELSE excluded.variables END,
    error_code = excluded.error_code, error = excluded.error, signal = excluded.signal,
    started_at = CASE WHEN excluded.attempt > attempt THEN max(excluded.started_at, started_at) ELSE started_at END,
    start_node_id = CASE WHEN excluded.attempt > attempt THEN NULL WHEN fence <> excluded.fence THEN coalesce(start_node_id, node_id)
                         ELSE start_node_id END,
    start_fence = CASE WHEN excluded.attempt > attempt THEN NULL WHEN fence <> excluded.fence THEN coalesce(start_fence, fence)
                       ELSE start_fence END
WHERE workflow_node_executions.finished_at IS NULL;

-- The same for the steps of a set, with the times that are in `parameter_rows`. ?1 node
-- name: write_steps
INSERT INTO workflow_node_executions
    (execution_id, step, status, attempt, failures, exit_code, due_at, started_at, finished_at, node_id, fence, output, variables,
     error_code, error, signal)
SELECT g.id, g.step, g.step_status, g.step_attempt, g.step_failures, g.step_exit_code, g.step_due_at, g.step_started_at,
       g.step_finished_at, ?1, g.fence, g.step_output, g.step_variables, g.step_error_code, g.step_error, g.step_signal
FROM parameter_rows g WHERE true
ON CONFLICT (execution_id, step) DO UPDATE
SET status = excluded.status, attempt = excluded.attempt, failures = excluded.failures, exit_code = excluded.exit_code,
    due_at = excluded.due_at, finished_at = max(excluded.finished_at, started_at), node_id = excluded.node_id, fence = excluded.fence,
    output = excluded.output,
    variables = CASE WHEN excluded.finished_at IS NOT NULL AND signal = 'children:' || step
                     THEN coalesce(excluded.variables, workflow_node_executions.variables)
                     ELSE excluded.variables END,
    error_code = excluded.error_code, error = excluded.error, signal = excluded.signal,
    started_at = CASE WHEN excluded.attempt > attempt THEN max(excluded.started_at, started_at) ELSE started_at END,
    start_node_id = CASE WHEN excluded.attempt > attempt THEN NULL WHEN fence <> excluded.fence THEN coalesce(start_node_id, node_id)
                         ELSE start_node_id END,
    start_fence = CASE WHEN excluded.attempt > attempt THEN NULL WHEN fence <> excluded.fence THEN coalesce(start_fence, fence)
                       ELSE start_fence END
WHERE workflow_node_executions.finished_at IS NULL;

-- Whether the last put-back or handover on record is a put-back.
-- name: was_put_back
SELECT coalesce((SELECT event IN ('retry', 'defer', 'put_back') FROM workflow_execution_events
                 WHERE execution_id = ?1 AND event IN ('retry', 'defer', 'put_back', 'hand_over', 'give_back')
                 ORDER BY seq DESC LIMIT 1), 0);

-- name: insert_event
INSERT INTO workflow_execution_events (execution_id, seq, at, event, node_id, fence, actor, reason, detail)
VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM workflow_execution_events WHERE execution_id = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- The columns of the virtual table parameter_rows (parameter_rows.c).
-- name: declare_parameter_rows
CREATE TABLE parameter_rows (at INTEGER, id TEXT, fence INTEGER, number INTEGER, status TEXT, dispatched INTEGER, node_id INTEGER,
                    lane_id INTEGER, rank INTEGER, due_at INTEGER, claimed_at INTEGER, dispatched_at INTEGER, started_at INTEGER,
                    step_due_at INTEGER, step_started_at INTEGER, step_finished_at INTEGER, refused INTEGER, error_code TEXT,
                    error TEXT, step TEXT, step_status TEXT, step_attempt INTEGER, step_failures INTEGER, step_exit_code INTEGER,
                    step_output BLOB, step_variables BLOB, step_error_code TEXT, step_error TEXT, step_signal TEXT);
