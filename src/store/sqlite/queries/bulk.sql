-- Operators' acts, one item at a time inside one transaction per chunk.

-- name: ask_cancel
UPDATE workflow_execution_queue SET cancel_at = ?2, cancel_sent = 0 WHERE id = ?1 AND cancel_at IS NULL;

-- name: release_item
UPDATE workflow_execution_queue SET phase = 0, due_at = NULL WHERE id = ?1 AND phase = 1;

-- The columns that a retry copies, whether the workspace exists, the state of the workflow, and whether it has the step ?2, or any
-- steps where ?2 is ''.
-- name: read_ended
SELECT h.status, h.workspace_id, h.definition_id, g.name, h.priority, h.idempotency_key, p.params, h.lane_id,
       EXISTS (SELECT 1 FROM workspaces w WHERE w.id = h.workspace_id),
       coalesce((SELECT d.state FROM workflow_definitions d WHERE d.id = h.definition_id), 2), h.traceparent,
       EXISTS (SELECT 1 FROM workflow_definitions d, json_each(d.definition, '$.steps') s
               WHERE d.id = h.definition_id AND ?2 IN ('', s.key))
FROM workflow_executions h JOIN executor_groups g ON g.id = h.lane_id >> 47 LEFT JOIN execution_params p ON p.id = h.id WHERE h.id = ?1;

-- Copies the finished steps of the execution ?1 to ?2: those of `steps` of the definition ?4 that completed, were skipped, or failed as
-- they may (continue_on_error). Not the step ?3, not those whose undo has begun, and not the steps that need one of these. The step that
-- ended with its execution is in its row of the history.
-- name: keep_steps
INSERT INTO workflow_node_executions
    (execution_id, step, status, attempt, failures, exit_code, started_at, finished_at, node_id, fence, output, variables, error_code,
     error)
WITH recorded AS MATERIALIZED (
    SELECT s.step, s.status, s.attempt, s.failures, s.exit_code, s.started_at, s.finished_at, s.node_id, s.fence, s.output, s.variables,
           s.error_code, s.error
    FROM workflow_node_executions s WHERE s.execution_id = ?1
    UNION ALL
    SELECT h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, h.step_started_at, h.finished_at, h.node_id,
           h.fence, h.step_output, h.step_variables, h.step_error_code, h.step_error
    FROM workflow_executions h WHERE h.id = ?1 AND h.step IS NOT NULL)
SELECT ?2, k.step, k.status, k.attempt, k.failures, k.exit_code, k.started_at, k.finished_at, k.node_id, k.fence, k.output, k.variables,
       k.error_code, k.error
FROM recorded k, workflow_definitions d, json_each(d.definition, '$.steps') own
WHERE d.id = ?4 AND own.key = k.step
  AND (k.status IN ('COMPLETED', 'SKIPPED') OR k.status = 'FAILED' AND json_type(own.value, '$.continue_on_error') = 'true')
  AND k.step NOT IN (
      WITH RECURSIVE again (step) AS (
          VALUES (coalesce(?3, ''))
          UNION
          SELECT substr(r.step, 1, length(r.step) - 5) FROM recorded r WHERE r.step LIKE '%.undo' AND r.status <> 'SKIPPED'
          UNION
          SELECT p.key FROM again a, workflow_definitions w, json_each(w.definition, '$.steps') p, json_each(p.value, '$.needs') n
          WHERE w.id = ?4 AND n.value = a.step)
      SELECT a.step FROM again a);

-- name: mark_kept
UPDATE workflow_execution_queue SET interruptions = 1, interruptions_at_park = 1 WHERE id = ?1;

-- name: find_retry
SELECT id FROM workflow_execution_queue WHERE retry_of = ?1 UNION ALL SELECT id FROM workflow_executions WHERE retry_of = ?1;

-- name: purge_execution
DELETE FROM workflow_executions WHERE id = ?1 RETURNING workspace_id, idempotency_key;

-- ?2 now. No row: it is marked already, or has not failed.
-- name: dismiss_execution
INSERT INTO dismissals (execution_id, at) SELECT h.id, ?2 FROM workflow_executions h WHERE h.id = ?1 AND h.status = 'FAILED'
ON CONFLICT DO NOTHING;

-- name: is_dismissed
SELECT 1 FROM dismissals WHERE execution_id = ?1;

-- name: purge_dismissal
DELETE FROM dismissals WHERE execution_id = ?1;

-- name: purge_params
DELETE FROM execution_params WHERE id = ?1;

-- name: purge_steps
DELETE FROM workflow_node_executions WHERE execution_id = ?1;

-- name: purge_attempts
DELETE FROM workflow_node_attempts WHERE execution_id = ?1;

-- name: purge_logs_of
DELETE FROM workflow_node_logs WHERE execution_id = ?1;

-- name: purge_events
DELETE FROM workflow_execution_events WHERE execution_id = ?1;

-- name: purge_key
DELETE FROM idempotency_keys WHERE workspace_id = ?1 AND key = ?2 AND execution_id = ?3;

-- name: reason_of
SELECT pending_reason FROM executions WHERE id = ?1;

-- How an execution stands to the version ?2 of its workflow. Deleted versions do not count. ?1 id
-- name: migration
SELECT CASE WHEN q.id IS NULL THEN 'ended' WHEN q.lane_id >> 31 & 1 = 1 THEN 'temporal' WHEN q.phase = 2 THEN 'held'
            WHEN t.id IS NULL THEN 'no_version' WHEN t.demand & 1 = 1 THEN 'temporal' WHEN t.id = d.id THEN 'same' ELSE 'changed' END,
       coalesce(q.status, h.status, 'gone'), d.id, d.version, t.id, t.demand, q.lane_id, q.phase, q.rank,
       d.definition ->> '$.timeout' IS NOT t.definition ->> '$.timeout', q.fence
FROM (SELECT ?1 AS id) u LEFT JOIN workflow_execution_queue q ON q.id = u.id LEFT JOIN workflow_executions h ON h.id = u.id
LEFT JOIN workflow_definitions d ON d.id = q.definition_id
LEFT JOIN workflow_definitions t ON t.name = d.name AND t.workspace_id = d.workspace_id AND t.version = ?2 AND t.state <> 2;

-- The steps on record that do not fit the definition ?3, each with the reason; NULL = all fit. ?2 the present definition. A step fits when
-- it is in the same part of the definition, of the same kind, and behind none that has not ended. A failure counts as much there, and
-- a wait for others is for the same. The step `state` of a workflow with states fits when its present state, its variables and the signal
-- that it waits for are there. An execution has begun to end with a step of a later part, or one that was cancelled: no step before it and
-- no timeout may be new then. ?1 id
-- name: migration_problems
WITH parts (definition_id, step, section, body) AS MATERIALIZED (
    SELECT d.id, e.key, x.value, e.value
    FROM workflow_definitions d, json_each('["steps","on_failure","finally"]') x, json_each(d.definition, '$.' || x.value) e
    WHERE d.id IN (?2, ?3)
    UNION ALL
    SELECT d.id, e.key || '.undo', 'undo', json_extract(e.value, '$.undo')
    FROM workflow_definitions d, json_each(d.definition, '$.steps') e
    WHERE d.id IN (?2, ?3) AND json_type(e.value, '$.undo') IS NOT NULL
    UNION ALL
    SELECT d.id, 'state', 'states', d.definition FROM workflow_definitions d
    WHERE d.id IN (?2, ?3) AND json_type(d.definition, '$.states') IS NOT NULL
), kinds AS MATERIALIZED (
    SELECT p.definition_id, p.step, p.section, p.body,
           (SELECT k.key FROM json_each(p.body) k
            WHERE k.key IN ('exec', 'http', 'sleep', 'signal', 'approve', 'start', 'handler', 'states')) AS kind
    FROM parts p
), late AS MATERIALIZED (
    SELECT w.step FROM workflow_node_executions w
    WHERE w.execution_id = ?1
      AND (w.status = 'CANCELLED'
           OR (SELECT o.section FROM kinds o WHERE o.definition_id = ?2 AND o.step = w.step) IN ('undo', 'on_failure', 'finally'))
), problems AS (
    SELECT r.step, CASE
        WHEN n.step IS NULL THEN 'is not there'
        WHEN n.section IS NOT o.section THEN 'is in another part'
        WHEN n.kind IS NOT o.kind THEN 'is of another kind'
        WHEN n.kind = 'states' THEN CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each(n.body, '$.states') s WHERE s.key = r.machine ->> '$.state')
                THEN 'is not there: ' || (r.machine ->> '$.state')
            WHEN EXISTS (SELECT 1 FROM json_each(n.body, '$.states') s JOIN json_each(o.body, '$.states') p ON p.key = s.key
                         WHERE s.key = r.machine ->> '$.state' AND s.value ->> '$.type' IS NOT p.value ->> '$.type')
                THEN 'has another type: ' || (r.machine ->> '$.state')
            WHEN EXISTS (SELECT 1 FROM json_each(r.machine, '$.variables') v
                         WHERE v.type <> 'null'
                           AND (SELECT d.value ->> '$.type' FROM json_each(n.body, '$.variables') d WHERE d.key = v.key)
                               IS NOT (SELECT d.value ->> '$.type' FROM json_each(o.body, '$.variables') d WHERE d.key = v.key))
                THEN 'has other variables'
            WHEN r.signal NOT LIKE '%:%' AND NOT EXISTS (SELECT 1 FROM json_each(n.body, '$.signals') g WHERE g.value = r.signal)
                THEN 'waits for something else' END
        WHEN r.status = 'FAILED' AND json_extract(n.body, '$.continue_on_error') IS NOT json_extract(o.body, '$.continue_on_error')
            THEN 'has another continue_on_error'
        WHEN r.status = 'WAITING' AND r.signal IS NOT NULL AND CASE
            WHEN n.kind = 'http' THEN json_type(n.body, '$.http.callback') IS NULL
            ELSE json_extract(n.body, '$.' || n.kind) IS NOT json_extract(o.body, '$.' || o.kind) END THEN 'waits for something else'
        WHEN EXISTS (SELECT 1 FROM json_each(n.body, '$.needs') x
                     WHERE NOT EXISTS (SELECT 1 FROM workflow_node_executions f
                                       WHERE f.execution_id = ?1 AND f.step = x.value
                                         AND f.status IN ('COMPLETED', 'SKIPPED', 'FAILED', 'CANCELLED')))
            THEN 'needs a step that has not ended' END AS problem
    FROM (SELECT w.step, w.status, w.signal, CAST(w.variables AS TEXT) AS machine FROM workflow_node_executions w
          WHERE w.execution_id = ?1) r LEFT JOIN kinds o ON o.definition_id = ?2 AND o.step = r.step
    LEFT JOIN kinds n ON n.definition_id = ?3 AND n.step = r.step
    UNION ALL
    SELECT n.step, 'is new, and the execution has begun to end' FROM kinds n
    WHERE n.definition_id = ?3 AND n.section <> 'finally' AND EXISTS (SELECT 1 FROM late)
      AND NOT EXISTS (SELECT 1 FROM kinds o WHERE o.definition_id = ?2 AND o.step = n.step AND o.section = n.section)
    UNION ALL
    SELECT 'timeout', 'is another, and the execution has begun to end' FROM workflow_definitions d, workflow_definitions t
    WHERE d.id = ?2 AND t.id = ?3 AND d.definition ->> '$.timeout' IS NOT t.definition ->> '$.timeout' AND EXISTS (SELECT 1 FROM late)
), placed AS (
    SELECT p.step || ' ' || p.problem AS text, row_number() OVER (ORDER BY p.step, p.problem) AS place
    FROM problems p WHERE p.problem IS NOT NULL
)
SELECT group_concat(p.text, ', ') FILTER (WHERE p.place <= 5)
       || CASE WHEN count(*) > 5 THEN ', and ' || (count(*) - 5) || ' more' ELSE '' END FROM placed p;

-- ?1 id, ?2 definition, ?3 lane
-- name: migrate_item
UPDATE workflow_execution_queue SET definition_id = ?2, lane_id = ?3 WHERE id = ?1;
