-- Signals of executions. Found by primary key.

-- The signal of this key, if it was sent before, and whether its data is ?4. Index: signals_by_key.
-- name: find_signal_of_key
SELECT seq, data = ?4 FROM signals WHERE execution_id = ?1 AND name = ?2 AND key = ?3;

-- Those of a name that no step has consumed, and the bytes of their data. An execution has at most as many others as it has steps.
-- name: kept_signals
SELECT count(*), coalesce(sum(length(CAST(data AS BLOB))), 0) FROM signals
WHERE execution_id = ?1 AND name = ?2 AND consumed_at IS NULL;

-- The names of the signals that steps or states of its definition wait for, and whether ?2 is one of them.
-- name: signal_names
SELECT coalesce(group_concat(name, ', '), ''), coalesce(max(name = ?2), 0), count(*)
FROM (SELECT DISTINCT CASE json_type(s.value, '$.signal') WHEN 'text' THEN s.value ->> '$.signal'
                                                          WHEN 'object' THEN s.value ->> '$.signal.name' END AS name
      FROM workflow_execution_queue q JOIN workflow_definitions d ON d.id = q.definition_id,
           json_each('["$.steps", "$.on_failure", "$.finally"]') p, json_each(d.definition, p.value) s
      WHERE q.id = ?1
      UNION
      SELECT t.value FROM workflow_execution_queue q JOIN workflow_definitions d ON d.id = q.definition_id,
             json_each(d.definition, '$.signals') t
      WHERE q.id = ?1 ORDER BY name)
WHERE name IS NOT NULL;

-- ?2 name, ?3 data, ?4 key, ?5 now, ?6 actor
-- name: insert_signal
INSERT INTO signals (execution_id, seq, name, data, key, sent_at, actor)
SELECT q.id, q.signals + 1, ?2, ?3, ?4, ?5, ?6 FROM workflow_execution_queue q WHERE q.id = ?1;

-- A node that holds the item gets the signal by take_signalled, all others with the claim.
-- ?2 how many more
-- name: count_signals
UPDATE workflow_execution_queue SET signals = signals + ?2, signals_sent = CASE phase WHEN 2 THEN signals_sent ELSE signals + ?2 END
WHERE id = ?1;

-- A wake for each step on record that waits, once for each wait: its key is the due time. A wait for the next attempt has the code of the
-- last one, a sleep has none. No wake ends the wait for an approval.
-- ?2 only waits of this kind, NULL = sleeps and waits for the next attempt; ?3 now, ?4 actor
-- name: insert_wakes
INSERT INTO signals (execution_id, seq, name, data, key, sent_at, actor)
SELECT s.execution_id, q.signals + row_number() OVER (ORDER BY s.step), 'wake:' || s.step, CAST(s.attempt AS TEXT),
       CAST(s.due_at AS TEXT), ?3, ?4
FROM workflow_node_executions s CROSS JOIN workflow_execution_queue q ON q.id = s.execution_id
WHERE s.execution_id = ?1 AND s.status = 'WAITING' AND s.due_at IS NOT NULL
  AND CASE WHEN ?2 IS NULL THEN s.signal IS NULL
           ELSE ?2 = CASE WHEN s.signal LIKE 'approve:%' THEN '' WHEN s.signal LIKE 'callback:%' THEN 'callback'
                          WHEN s.signal LIKE 'children:%' THEN 'child' WHEN s.signal LIKE 'manual:%' THEN 'manual'
                          WHEN s.signal IS NOT NULL THEN 'signal'
                          WHEN s.error_code IS NULL THEN 'sleep' ELSE 'retry' END END
  AND NOT EXISTS (SELECT 1 FROM signals w
                  WHERE w.execution_id = ?1 AND w.name = 'wake:' || s.step AND w.key = CAST(s.due_at AS TEXT));

-- The waits on record: all, those of the kind ?2 (as above), and those of them with a time.
-- name: count_waits
SELECT count(*), coalesce(sum(w.is_wanted), 0), coalesce(sum(w.is_wanted AND w.due_at IS NOT NULL), 0)
FROM (SELECT s.due_at, CASE WHEN ?2 IS NULL THEN s.signal IS NULL
                            ELSE ?2 = CASE WHEN s.signal LIKE 'approve:%' THEN '' WHEN s.signal LIKE 'callback:%' THEN 'callback'
                          WHEN s.signal LIKE 'children:%' THEN 'child' WHEN s.signal LIKE 'manual:%' THEN 'manual'
                          WHEN s.signal IS NOT NULL THEN 'signal'
                          WHEN s.error_code IS NULL THEN 'sleep' ELSE 'retry' END
                       END AS is_wanted
      FROM workflow_node_executions s WHERE s.execution_id = ?1 AND s.status = 'WAITING') w;

-- Whether the execution has a report with the hash ?2 of its token, or a step that may take it. Index: the primary keys.
-- name: knows_callback
SELECT EXISTS (SELECT 1 FROM signals WHERE execution_id = ?1 AND name LIKE 'callback:%' AND substr(name, -32) = ?2)
       OR EXISTS (SELECT 1 FROM workflow_node_executions
                  WHERE execution_id = ?1 AND finished_at IS NULL AND signal LIKE 'callback:%' AND substr(signal, -32) = ?2);

-- A report of the function that a step `http` has called, by the hash ?2 of its token, and whether its digest is ?3.
-- name: find_report
SELECT seq, key = ?3 FROM signals WHERE execution_id = ?1 AND name LIKE 'callback:%' AND substr(name, -32) = ?2;

-- The name under which an attempt on record takes the report with the hash ?2, if its time is not over at ?3. Index: the primary key.
-- name: find_callback
SELECT s.signal FROM workflow_node_executions s JOIN workflow_execution_queue q ON q.id = s.execution_id
WHERE s.execution_id = ?1 AND s.finished_at IS NULL AND s.signal LIKE 'callback:%' AND substr(s.signal, -32) = ?2
  AND (s.status <> 'WAITING' OR s.due_at IS NULL OR s.due_at > ?3);

-- The steps that wait for a decision and have none: their names, the first of them, the actors who may decide, whether ?3 is one, and
-- whether its timeout has passed. An actor is meant by its whole text, or by the part before "(" or " for ".
-- ?2 only this step, or NULL; ?4 now
-- name: find_approval
SELECT count(*), group_concat(s.step, ', '), min(s.step),
       (SELECT group_concat(b.value, ', ') FROM json_each(d.definition, '$.steps."' || s.step || '".approve.by') b),
       json_type(d.definition, '$.steps."' || s.step || '".approve.by') IS NULL
       OR EXISTS (SELECT 1 FROM json_each(d.definition, '$.steps."' || s.step || '".approve.by') b
                  WHERE ?3 = b.value OR substr(?3, 1, length(b.value) + 1) = b.value || '('
                        OR substr(?3, 1, length(b.value) + 5) = b.value || ' for '),
       coalesce(s.due_at <= ?4, 0)
FROM workflow_node_executions s JOIN workflow_execution_queue q ON q.id = s.execution_id
JOIN workflow_definitions d ON d.id = q.definition_id
WHERE s.execution_id = ?1 AND s.status = 'WAITING' AND s.signal LIKE 'approve:%' AND (?2 IS NULL OR s.step = ?2)
  AND NOT EXISTS (SELECT 1 FROM signals g WHERE g.execution_id = ?1 AND g.name = s.signal AND g.key = 'approval');

-- The last decision of the execution, or of the step ?2, with the state of the execution, and whether the step has ended without it.
-- name: last_approval
SELECT substr(g.name, 9),
       json_set(g.data, '$.state', coalesce(q.status, h.status), '$.is_unused', json(iif(
           g.consumed_at IS NULL AND (q.id IS NULL OR EXISTS (SELECT 1 FROM workflow_node_executions s
                                                              WHERE s.execution_id = ?1 AND s.step = substr(g.name, 9)
                                                                AND s.finished_at IS NOT NULL)), 'true', 'false')))
FROM signals g LEFT JOIN workflow_execution_queue q ON q.id = g.execution_id LEFT JOIN workflow_executions h ON h.id = g.execution_id
WHERE g.execution_id = ?1 AND g.name LIKE 'approve:%' AND (?2 IS NULL OR g.name = 'approve:' || ?2) ORDER BY g.seq DESC LIMIT 1;

-- ?2 step, ?3 approved, ?4 comment, ?5 now, ?6 actor
-- name: insert_approval
INSERT INTO signals (execution_id, seq, name, data, key, sent_at, actor)
SELECT q.id, q.signals + 1, 'approve:' || ?2,
       json_object('approved', json(iif(?3, 'true', 'false')), 'by', ?6, 'comment', ?4, 'at',
                   strftime('%Y-%m-%dT%H:%M:%S', ?5 / 1000000, 'unixepoch') || printf('.%06dZ', ?5 % 1000000)),
       'approval', ?5, ?6
FROM workflow_execution_queue q WHERE q.id = ?1;

-- How many steps of a WAITING item wait for the signal ?2, and one of them. Whether it is no machine of states, and nothing of the item is
-- due at ?3.
-- name: find_awaiting
SELECT count(*), min(s.step), coalesce(min(s.variables IS NULL AND q.due_at > ?3), 0)
FROM workflow_node_executions s JOIN workflow_execution_queue q ON q.id = s.execution_id
WHERE s.execution_id = ?1 AND s.status = 'WAITING' AND s.signal = ?2;

-- The end of a step by a signal, as a node would record it. The step has no node: none holds the item. ?3 now, ?4 data, ?5 fence
-- name: end_wait
UPDATE workflow_node_executions
SET status = 'COMPLETED', due_at = NULL, finished_at = ?3, output = ?4, signal = NULL, start_node_id = coalesce(start_node_id, node_id),
    start_fence = coalesce(start_fence, fence), node_id = 0, fence = ?5
WHERE execution_id = ?1 AND step = ?2 AND status = 'WAITING';

-- ?2 now
-- name: wake_item
UPDATE workflow_execution_queue SET status = 'PENDING', phase = 0, due_at = NULL, waiting_for = NULL, woken_at = ?2
WHERE id = ?1 AND phase = 3;

-- The data of a report may hold secrets of its step. ?3 step, ?4 now
-- name: consume_signal
UPDATE signals SET step = ?3, consumed_at = ?4, data = CASE WHEN name LIKE 'callback:%' THEN 'null' ELSE data END
WHERE execution_id = ?1 AND seq = ?2 AND consumed_at IS NULL;

-- A wake that came when its wait was over is consumed by no record, and is of no use any more.
-- name: read_signals
SELECT g.seq, g.name, g.data FROM signals g
WHERE g.execution_id = ?1 AND g.consumed_at IS NULL
  AND (g.name NOT LIKE 'wake:%' OR EXISTS (SELECT 1 FROM workflow_node_executions s
                                           WHERE s.execution_id = ?1 AND s.step = substr(g.name, 6) AND s.status = 'WAITING'
                                             AND CAST(s.attempt AS TEXT) = g.data))
ORDER BY g.seq;

-- Index: queue_signalled.
-- name: take_signalled
UPDATE workflow_execution_queue SET signals_sent = signals
WHERE number IN (SELECT q.number FROM workflow_execution_queue q WHERE q.node_id = ?1 AND q.signals > q.signals_sent LIMIT ?2)
RETURNING id, fence;

-- Without wakes that have ended no wait, as above.
-- name: read_signal_rows
SELECT g.seq, g.name, g.data, g.key,
       strftime('%Y-%m-%dT%H:%M:%S', sent_at / 1000000, 'unixepoch') || printf('.%06dZ', sent_at % 1000000) AS sent_at, g.actor, g.step,
       strftime('%Y-%m-%dT%H:%M:%S', consumed_at / 1000000, 'unixepoch') || printf('.%06dZ', consumed_at % 1000000) AS consumed_at
FROM signals g
WHERE execution_id = ?1 AND name NOT LIKE 'children:%'
  AND (consumed_at IS NOT NULL OR name NOT LIKE 'wake:%'
       OR EXISTS (SELECT 1 FROM workflow_node_executions s
                  WHERE s.execution_id = ?1 AND s.step = substr(g.name, 6) AND s.status = 'WAITING' AND CAST(s.attempt AS TEXT) = g.data))
ORDER BY seq;

-- name: purge_signals
DELETE FROM signals WHERE execution_id = ?1;
