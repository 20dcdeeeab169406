-- Signals of executions. The functions hold what a caller in SQL does, too.

-- $1 execution, $2 name, $3 data, $4 key, $5 actor, $6 reason
-- name: send_signal
SELECT s.outcome, s.seq, s.kept, s.bytes, array_to_string(s.names, ', ') FROM :schema.send_signal($1, $2, $3, $4, $5, $6) s;

-- To many. $1 executions, $2 name, $3 data, $4 key, $5 actor, $6 reason, $7 subject
-- name: signal_items
SELECT s.outcome, s.seq, s.kept, s.bytes, s.names, s.item FROM :schema.signal_items($1, $2, $3, $4, $5, $6, $7) s ORDER BY s.item;

-- $1 execution, $2 step or NULL, $3 approved, $4 comment, $5 actor, $6 reason
-- name: decide_step
SELECT s.outcome, s.seq, s.step, s.who, s.waiting FROM :schema.decide_step($1, $2, $3, $4, $5, $6) s;

-- $1 execution, $2 hash of the token, $3 data, $4 its digest
-- name: call_back
SELECT s.outcome, s.seq FROM :schema.call_back($1, $2, $3, $4) s;

-- Those that no step has consumed. A wake that came when its wait was over is consumed by no record, and is of no use any more.
-- $1 executions. Index: the primary key.
-- name: read_signals
SELECT s.execution_id, s.seq, s.name, s.data FROM :schema.signals s
WHERE s.execution_id = ANY ($1) AND s.consumed_at IS NULL
  AND (s.name NOT LIKE 'wake:%' OR (SELECT o.status = 'WAITING' AND o.attempt::text = s.data FROM :schema.workflow_node_executions o
                                    WHERE o.execution_id = s.execution_id AND o.step = substr(s.name, 6)))
ORDER BY s.execution_id, s.seq;

-- Held items of the node $1 with signals that it has not got, at most $2. A row that another transaction has locked could not be marked;
-- it is left for the next call, so that such rows hold up no other. Locks: the rows, for the statement. Index: queue_signalled.
-- name: signalled
SELECT q.id, q.fence, q.signals FROM :schema.workflow_execution_queue q
WHERE q.node_id = $1 AND q.signals > q.signals_sent ORDER BY q.id LIMIT $2
FOR NO KEY UPDATE SKIP LOCKED;

-- $1 items, $2 their fences, $3 the numbers of the last signals that their node has got. A row that another transaction has locked is left
-- as it is: its signals are passed on again. Index: the primary key.
-- name: mark_signals_sent
UPDATE :schema.workflow_execution_queue q SET signals_sent = greatest(q.signals_sent, u.seq)
FROM unnest($1, $2, $3) u (id, fence, seq)
WHERE q.id = ANY (ARRAY(SELECT r.id FROM :schema.workflow_execution_queue r WHERE r.id = ANY ($1) ORDER BY r.id
                        FOR NO KEY UPDATE SKIP LOCKED))
  AND q.id = u.id AND q.fence = u.fence;

-- Without wakes that have ended no wait, as above.
-- name: read_signal_rows
SELECT s.seq, s.name, s.data::json AS data, s.key, :schema.rfc3339(s.sent_at) AS sent_at, s.actor, s.step,
       :schema.rfc3339(s.consumed_at) AS consumed_at
FROM :schema.signals s
WHERE s.execution_id = $1 AND s.name NOT LIKE 'children:%'
  AND (s.consumed_at IS NOT NULL OR s.name NOT LIKE 'wake:%'
       OR (SELECT o.status = 'WAITING' AND o.attempt::text = s.data FROM :schema.workflow_node_executions o
           WHERE o.execution_id = $1 AND o.step = substr(s.name, 6)))
ORDER BY s.seq;
