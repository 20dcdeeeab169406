-- Schedules and their firings. A list of workspaces is a JSON array of ids.

-- name: find_schedule
SELECT id FROM schedules WHERE name = ?1;

-- name: count_schedules
SELECT count(*) FROM schedules;

-- name: schedule_names
SELECT name FROM schedules ORDER BY name LIMIT 1000;

-- With the same times an overdue time stays due; one that is too late, of a wrong clock, does not stay. ?1 name, ?2 cron or NULL,
-- ?3 zone or NULL, ?4 interval; 0 = none, ?5 jitter, ?6 first time; 0 = none, ?7 last time; 0 = none, ?8 workflow, ?9 params,
-- ?10 workspaces or NULL, ?11 plan or NULL, ?12 overlap policy, ?13 catch-up, ?14 now, ?15 due time, TIME_NEVER = none is left,
-- ?16 workspace of the definition, 0 = it is of all workspaces, -1 = no definition sets it
-- name: insert_schedule
INSERT INTO schedules (name, cron, zone, every, jitter, starts_at, ends_at, workflow, params, workspaces, plan, overlap, catch_up,
                       created_at, due_at, definition_owner)
VALUES (?1, ?2, ?3, nullif(?4, 0), ?5, nullif(?6, 0), nullif(?7, 0), ?8, ?9, ?10, ?11, ?12, ?13, ?14,
        nullif(?15, 9223372036854775807), nullif(?16, -1));

-- The same values for a schedule that exists; one that has all of them is not written. An INSERT with ON CONFLICT would write the number
-- of the next row in any case.
-- name: change_schedule
UPDATE schedules
SET cron = ?2, zone = ?3, every = nullif(?4, 0), jitter = ?5, starts_at = nullif(?6, 0), ends_at = nullif(?7, 0), workflow = ?8,
    params = ?9, workspaces = ?10, plan = ?11, overlap = ?12, catch_up = ?13, retry_at = NULL, definition_owner = nullif(?16, -1),
    (refused_at, error_code, error) = (SELECT CASE WHEN r.held THEN refused_at END, CASE WHEN r.held THEN error_code END,
                                              CASE WHEN r.held THEN error END
                                       FROM (SELECT EXISTS (SELECT 1 FROM schedule_refusals x WHERE x.schedule_id = schedules.id)
                                             AS held) r),
    due_at = CASE WHEN due_at IS NULL OR cron IS NOT ?2 OR zone IS NOT ?3 OR every IS NOT nullif(?4, 0)
                       OR starts_at IS NOT nullif(?6, 0) OR ends_at IS NOT nullif(?7, 0)
                  THEN nullif(?15, 9223372036854775807) ELSE min(due_at, ?15) END
WHERE name = ?1
  AND ((cron, zone, every, jitter, starts_at, ends_at, workflow, params, workspaces, plan, overlap, catch_up, definition_owner)
       IS NOT (?2, ?3, nullif(?4, 0), ?5, nullif(?6, 0), nullif(?7, 0), ?8, ?9, ?10, ?11, ?12, ?13, nullif(?16, -1))
       OR retry_at IS NOT NULL OR (due_at IS NULL AND ?15 <> 9223372036854775807) OR due_at > ?15
       OR (refused_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM schedule_refusals x WHERE x.schedule_id = schedules.id)));

-- The definition that owns a schedule, as its workspace and its name; no row: there is no such schedule, or no definition owns it. One
-- that was deleted owns none. ?1 name
-- name: find_definition_of_schedule
SELECT coalesce((SELECT w.name || '/' FROM workspaces w WHERE w.id = s.definition_owner), '') || s.workflow, s.definition_owner, s.workflow
FROM schedules s
WHERE s.name = ?1 AND s.definition_owner IS NOT NULL
  AND EXISTS (SELECT 1 FROM workflow_definitions d WHERE d.name = s.workflow AND d.workspace_id = s.definition_owner AND d.state <> 2);

-- A schedule of a definition that is not to stay. ?1 workspace of the definition or 0, ?2 workflow; NULL = any, ?3 JSON array of
-- the names that stay
-- name: find_schedule_to_remove
SELECT s.id, s.name FROM schedules s
WHERE s.definition_owner = ?1 AND (?2 IS NULL OR s.workflow = ?2) AND s.name NOT IN (SELECT i.value FROM json_each(?3) i)
LIMIT 1;

-- Refusals in workspaces that the schedule has no longer. ?1 name, ?2 ids of its workspaces or NULL, ?3 its plan
-- name: remove_refusals_elsewhere
DELETE FROM schedule_refusals
WHERE schedule_id = (SELECT s.id FROM schedules s WHERE s.name = ?1)
  AND CASE WHEN ?2 IS NULL THEN NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = workspace_id AND w.plan = ?3)
           ELSE workspace_id NOT IN (SELECT i.value FROM json_each(?2) i) END;

-- The firings of which the new policy lets only one of a workspace wait: the newest one with cancel_running, else the oldest. ?1 name
-- name: remove_firings_beside_one
DELETE FROM schedule_firings
WHERE schedule_id = (SELECT id FROM schedules WHERE name = ?1 AND overlap <> 'queue_all') AND execution_id IS NULL
  AND EXISTS (SELECT 1 FROM schedule_firings o JOIN schedules s ON s.id = o.schedule_id
              WHERE o.schedule_id = schedule_firings.schedule_id AND o.workspace_id = schedule_firings.workspace_id
                AND o.execution_id IS NULL
                AND CASE WHEN s.overlap = 'cancel_running' THEN o.due_at > schedule_firings.due_at
                         ELSE o.due_at < schedule_firings.due_at END);

-- A resumed schedule is due now, and its next time is computed from there. So a time that passed during the pause does not fire, and a due
-- time of a wrong clock does not stay. ?1 name, ?2 paused, ?3 now
-- name: pause_schedule
UPDATE schedules SET paused = ?2, retry_at = NULL, due_at = CASE WHEN paused = 1 AND ?2 = 0 AND due_at IS NOT NULL THEN ?3 ELSE due_at END
WHERE name = ?1;

-- ?1 schedule
-- name: remove_paused_firings
DELETE FROM schedule_firings WHERE schedule_id = ?1 AND execution_id IS NULL AND is_triggered = 0;

-- The workspaces that will not get a firing of the time with firings in parts. ?1 schedule
-- name: untriggered_behind
SELECT expanded_to FROM schedules WHERE id = ?1 AND expands_at IS NOT NULL AND expands_triggered = 0;

-- name: delete_schedule_firings
DELETE FROM schedule_firings WHERE schedule_id = ?1;

-- name: delete_schedule_refusals
DELETE FROM schedule_refusals WHERE schedule_id = ?1;

-- name: delete_schedule
DELETE FROM schedules WHERE id = ?1;

-- A schedule that inserts its firings in parts is due at once. ?1 now, ?2 limit
-- name: read_due_schedules
SELECT id, name, cron, zone, coalesce(every, 0), coalesce(starts_at, 0), coalesce(ends_at, 0),
       coalesce(due_at, 9223372036854775807), catch_up, coalesce(expands_at, 9223372036854775807), overlap
FROM schedules
WHERE (expands_at IS NOT NULL OR paused = 0 AND due_at IS NOT NULL)
  AND CASE WHEN expands_at IS NOT NULL THEN coalesce(retry_at, 0) ELSE max(due_at, coalesce(retry_at, 0)) END <= ?1
ORDER BY CASE WHEN expands_at IS NOT NULL THEN coalesce(retry_at, 0) ELSE max(due_at, coalesce(retry_at, 0)) END LIMIT ?2;

-- ?1 now
-- name: next_due_schedule
SELECT CASE WHEN expands_at IS NOT NULL THEN coalesce(retry_at, 0) ELSE max(due_at, coalesce(retry_at, 0)) END FROM schedules
WHERE (expands_at IS NOT NULL OR paused = 0 AND due_at IS NOT NULL)
  AND CASE WHEN expands_at IS NOT NULL THEN coalesce(retry_at, 0) ELSE max(due_at, coalesce(retry_at, 0)) END > ?1
ORDER BY CASE WHEN expands_at IS NOT NULL THEN coalesce(retry_at, 0) ELSE max(due_at, coalesce(retry_at, 0)) END LIMIT 1;

-- name: has_waiting_firings
SELECT EXISTS (SELECT 1 FROM schedule_firings WHERE execution_id IS NULL);

-- ?1 schedule, ?2 workspace, ?3 due time, ?4 planned id: one of the same time that was inserted anew is another one
-- name: firing_waits
SELECT EXISTS (SELECT 1 FROM schedule_firings
               WHERE schedule_id = ?1 AND workspace_id = ?2 AND due_at = ?3 AND planned_id = ?4 AND execution_id IS NULL);

-- ?1 id, ?2 due time as it was read, ?3 the next one, TIME_NEVER = none, ?4 dropped times, ?5 time of the next try; 0 = none
-- name: advance_schedule
UPDATE schedules SET due_at = nullif(?3, 9223372036854775807), dropped = dropped + ?4, retry_at = nullif(?5, 0)
WHERE id = ?1 AND due_at = ?2 AND paused = 0 AND expands_at IS NULL;

-- Some of the times that fire are left for later. ?1 id, ?2 the first of these
-- name: leave_due
UPDATE schedules SET due_at = ?2 WHERE id = ?1;

-- ?1 id, ?2 time with firings in parts, as it was read, ?3 time of the next try; 0 = none
-- name: continue_firings
UPDATE schedules SET retry_at = nullif(?3, 0) WHERE id = ?1 AND expands_at = ?2;

-- The time with firings in parts: the last workspace that has its firing, 1 = triggered, 1 = only where it was refused, and the key of its
-- executions. ?1 id
-- name: part_under_way
SELECT expanded_to, expands_triggered, expands_refused,
       'schedule/' || name || '/' || strftime('%Y-%m-%dT%H:%M:%S', expands_at / 1000000, 'unixepoch')
       || printf('.%06dZ', expands_at % 1000000)
FROM schedules WHERE id = ?1;

-- ?1 id, ?2 time, ?3 the last workspace that has its firing, ?4 1 = triggered, ?5 1 = only where it was refused
-- name: note_part
UPDATE schedules SET expands_at = ?2, expanded_to = ?3, expands_triggered = ?4, expands_refused = ?5 WHERE id = ?1;

-- ?1 id
-- name: end_parts
UPDATE schedules SET expands_at = NULL, expanded_to = NULL, expands_triggered = 0, expands_refused = 0
WHERE id = ?1 AND expands_at IS NOT NULL;

-- The last workspace of a part, in the order of ids; no row: fewer are left. ?1 schedule, ?2 behind this workspace, ?3 workspaces of the
-- part without the last one
-- name: end_of_part
SELECT w.id FROM schedules s JOIN workspaces w ON w.plan = s.plan AND w.id > ?2 WHERE s.id = ?1 ORDER BY w.id LIMIT 1 OFFSET ?3;

-- The same, of the workspaces in which a time was refused. ?4 time
-- name: end_of_refused_part
SELECT workspace_id FROM schedule_refusals WHERE schedule_id = ?1 AND due_at = ?4 AND workspace_id > ?2
ORDER BY workspace_id LIMIT 1 OFFSET ?3;

-- ?1 schedule, ?2 behind this workspace, ?3 time
-- name: count_refused_workspaces
SELECT count(*) FROM schedule_refusals WHERE schedule_id = ?1 AND due_at = ?3 AND workspace_id > ?2;

-- The workspaces in which a schedule starts. ?1 schedule, ?2 behind this workspace, ?3 until that one
-- name: count_schedule_workspaces
SELECT CASE WHEN s.workspaces IS NOT NULL
            THEN (SELECT count(*) FROM json_each(s.workspaces) i WHERE i.value > ?2 AND i.value <= ?3)
            ELSE (SELECT count(*) FROM workspaces w WHERE w.plan = s.plan AND w.id > ?2 AND w.id <= ?3) END
FROM schedules s WHERE s.id = ?1;

-- A workspace in which a schedule does not start. ?1 schedule, ?2 ids of workspaces
-- name: workspace_of_no_firing
SELECT w.name FROM json_each(?2) i JOIN workspaces w ON w.id = i.value JOIN schedules s ON s.id = ?1
WHERE CASE WHEN s.workspaces IS NULL THEN w.plan <> s.plan ELSE w.id NOT IN (SELECT j.value FROM json_each(s.workspaces) j) END LIMIT 1;

-- The time with firings in parts. ?1 schedule
-- name: expands_at
SELECT expands_at FROM schedules WHERE id = ?1 AND expands_at IS NOT NULL;

-- The workspaces of a part without a firing of the time, as a JSON array. Then the number of all of the part, and of those that have a
-- firing or an execution with the key. ?1 schedule, ?2 behind this workspace, ?3 until that one, ?4 of these workspaces only; NULL = of
-- all, ?5 time, ?6 key or NULL, ?7 1 = only where the time was refused
-- name: choose_workspaces
WITH targets AS MATERIALIZED (
    SELECT i.value AS id FROM schedules s, json_each(s.workspaces) i WHERE s.id = ?1 AND i.value > ?2 AND i.value <= ?3
    UNION ALL
    SELECT w.id FROM schedules s JOIN workspaces w ON w.plan = s.plan AND w.id > ?2 AND w.id <= ?3 WHERE s.id = ?1
), part AS MATERIALIZED (
    SELECT t.id, EXISTS (SELECT 1 FROM schedule_firings f WHERE f.schedule_id = ?1 AND f.workspace_id = t.id AND f.due_at = ?5)
                 OR EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.workspace_id = t.id AND k.key = ?6) AS is_known
    FROM targets t
    WHERE (?4 IS NULL OR t.id IN (SELECT i.value FROM json_each(?4) i))
      AND (?7 = 0 OR EXISTS (SELECT 1 FROM schedule_refusals r WHERE r.schedule_id = ?1 AND r.due_at = ?5 AND r.workspace_id = t.id))
)
SELECT (SELECT json_group_array(p.id) FROM part p WHERE NOT p.is_known), (SELECT count(*) FROM part),
       (SELECT count(*) FROM part p WHERE p.is_known);

-- With the policy cancel_running only the newest time waits. ?1 schedule, ?2 ids of workspaces, ?3 time
-- name: replace_waiting_firings
DELETE FROM schedule_firings
WHERE schedule_id = ?1 AND workspace_id IN (SELECT i.value FROM json_each(?2) i) AND execution_id IS NULL AND due_at < ?3
  AND EXISTS (SELECT 1 FROM schedules s WHERE s.id = ?1 AND s.overlap = 'cancel_running');

-- The planned id of the execution is a UUIDv7. ?1 schedule, ?2 time, ?3 1 = triggered, ?4 firings that may wait in a workspace,
-- ?5 now in 4096ths of a millisecond, ?6 ids of workspaces, ?7 now
-- name: insert_firings
INSERT OR IGNORE INTO schedule_firings (schedule_id, workspace_id, due_at, is_triggered, created_at, planned_id)
SELECT ?1, t.value, ?2, ?3, ?7,
       substr(printf('%015x', ?5), 1, 8) || '-' || substr(printf('%015x', ?5), 9, 4) || '-7' || substr(printf('%015x', ?5), 13) || '-'
       || substr('89ab', 1 + (random() & 3), 1)
       || substr(lower(hex(randomblob(2))), 2) || '-' || lower(hex(randomblob(6)))
FROM schedules s CROSS JOIN json_each(?6) t
WHERE s.id = ?1
  AND CASE s.overlap
      WHEN 'skip' THEN NOT EXISTS (SELECT 1 FROM schedule_firings f
                                   WHERE f.schedule_id = ?1 AND f.workspace_id = t.value
                                     AND (f.execution_id IS NULL
                                          OR EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = f.execution_id)))
      WHEN 'queue_one' THEN NOT EXISTS (SELECT 1 FROM schedule_firings f
                                        WHERE f.schedule_id = ?1 AND f.workspace_id = t.value AND f.execution_id IS NULL)
      WHEN 'queue_all' THEN (SELECT count(*) FROM schedule_firings f
                             WHERE f.schedule_id = ?1 AND f.workspace_id = t.value AND f.execution_id IS NULL) < ?4
      ELSE NOT EXISTS (SELECT 1 FROM schedule_firings f
                       WHERE f.schedule_id = ?1 AND f.workspace_id = t.value AND f.due_at > ?2
                         AND (f.execution_id IS NULL
                              OR EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = f.execution_id))) END;

-- ?1 id, ?2 skipped firings
-- name: count_skipped_firings
UPDATE schedules SET skipped = skipped + ?2 WHERE id = ?1;

-- Rows of workspaces that were deleted. ?1 schedule, ?2 behind this workspace, ?3 until that one
-- name: remove_orphaned_firings
DELETE FROM schedule_firings
WHERE schedule_id = ?1 AND workspace_id > ?2 AND workspace_id <= ?3 AND execution_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = workspace_id);

-- The oldest waiting firing of each schedule and workspace that may start, or that needs the cancel of the execution before it. Its age
-- counts from its insertion, or from the end of the execution that it waited for. Each kind has a limit of its own, so that none hides the
-- other. ?1 limit of those that may start, ?2 executions that may wait in a workspace, if its own limit is not less, ?3 now,
-- ?4 limit of those that need a cancel
-- name: read_schedule_firings
SELECT f.schedule_id, f.workspace_id, s.name, (SELECT w.name FROM workspaces w WHERE w.id = f.workspace_id), s.workflow, s.params,
       f.due_at, iif(f.is_triggered, 0, s.jitter),
       coalesce((SELECT sum(b.runnable + b.waiting) FROM books b WHERE b.workspace_id = f.workspace_id), 0)
       >= min(?2, coalesce((SELECT nullif(w.pending_max, 0) FROM workspaces w WHERE w.id = f.workspace_id), ?2)), f.running,
       f.planned_id,
       f.running IS NULL AND f.is_triggered = 0
       AND max(f.created_at, coalesce((SELECT max(h.finished_at) FROM schedule_firings r JOIN workflow_executions h ON h.id = r.execution_id
                                   WHERE r.schedule_id = f.schedule_id AND r.workspace_id = f.workspace_id), 0)) < ?3 - s.catch_up,
       s.plan IS NOT NULL,
       CASE WHEN f.running IS NOT NULL
            THEN coalesce((SELECT d.state FROM workflow_definitions d WHERE d.name = s.workflow AND d.workspace_id = f.workspace_id
                                                                            AND d.state <> 2 ORDER BY d.version DESC LIMIT 1),
                          (SELECT d.state FROM workflow_definitions d WHERE d.name = s.workflow AND d.workspace_id = 0
                                                                            AND d.state <> 2 ORDER BY d.version DESC LIMIT 1), 2)
            ELSE 0 END
FROM (SELECT p.*, row_number() OVER (PARTITION BY p.running IS NULL ORDER BY p.due_at) AS place
      FROM (SELECT o.schedule_id, o.workspace_id, o.due_at, o.is_triggered, o.created_at, o.planned_id,
                   (SELECT q.id FROM schedule_firings r JOIN workflow_execution_queue q ON q.id = r.execution_id
                    WHERE r.schedule_id = o.schedule_id AND r.workspace_id = o.workspace_id) AS running
            FROM (SELECT schedule_id, workspace_id, min(due_at) AS due_at, is_triggered, created_at, planned_id
                  FROM schedule_firings
                  WHERE execution_id IS NULL
                  GROUP BY schedule_id, workspace_id) o) p
      CROSS JOIN schedules y ON y.id = p.schedule_id
      WHERE p.running IS NULL
            OR y.overlap = 'cancel_running'
               AND EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = p.running AND q.cancel_at IS NULL)) f
CROSS JOIN schedules s ON s.id = f.schedule_id
WHERE f.place <= iif(f.running IS NULL, ?1, ?4)
ORDER BY f.due_at;

-- Whether another node has settled the firing. ?1 schedule, ?2 workspace, ?3 due time
-- name: firing_is_settled
SELECT EXISTS (SELECT 1 FROM schedule_firings WHERE schedule_id = ?1 AND workspace_id = ?2 AND due_at = ?3
                                                    AND execution_id IS NOT NULL);

-- The execution of a firing, or the one with its planned id, after a lost settlement. ?1 schedule, ?2 workspace, ?3 due time
-- name: execution_of_firing
SELECT coalesce(f.execution_id, f.planned_id) FROM schedule_firings f
WHERE f.schedule_id = ?1 AND f.workspace_id = ?2 AND f.due_at = ?3
  AND (f.execution_id IS NOT NULL OR EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = f.planned_id)
       OR EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = f.planned_id));

-- The firings with a lost settlement. ?1 schedule, ?2 behind this workspace, ?3 until that one
-- name: adopt_firings
UPDATE schedule_firings SET execution_id = planned_id
WHERE schedule_id = ?1 AND workspace_id > ?2 AND workspace_id <= ?3 AND execution_id IS NULL
  AND (EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = planned_id)
       OR EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = planned_id));

-- ?1 schedule, ?2 adopted firings, ?3 now
-- name: note_adopted_firings
UPDATE schedules
SET fired = fired + ?2, fired_at = ?3,
    (last_due_at, last_execution_id) = (SELECT max(f.due_at), f.execution_id FROM schedule_firings f
                                        WHERE f.schedule_id = ?1 AND f.execution_id IS NOT NULL)
WHERE id = ?1;

-- The refusals of times that have their executions. ?1 schedule
-- name: remove_adopted_refusals
DELETE FROM schedule_refusals
WHERE schedule_id = ?1
  AND EXISTS (SELECT 1 FROM schedule_firings f
              WHERE f.schedule_id = ?1 AND f.workspace_id = schedule_refusals.workspace_id AND f.due_at = schedule_refusals.due_at
                AND f.execution_id IS NOT NULL);

-- The last time of the schedule itself with an execution; 0 = none. ?1 schedule
-- name: last_settled_time
SELECT coalesce(max(due_at), 0) FROM schedule_firings WHERE schedule_id = ?1 AND execution_id IS NOT NULL AND is_triggered = 0;

-- Also when the firing was removed after it had been read. But a newer one that is settled, without the execution in the queue, shows that
-- the firing was settled before, and removed with the end of its execution. ?4 execution
-- name: settle_firing
INSERT INTO schedule_firings (schedule_id, workspace_id, due_at, created_at, planned_id, execution_id)
SELECT s.id, ?2, ?3, ?3, ?4, ?4 FROM schedules s
WHERE s.id = ?1
  AND (EXISTS (SELECT 1 FROM schedule_firings f WHERE f.schedule_id = ?1 AND f.workspace_id = ?2 AND f.due_at = ?3)
       OR EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = ?4)
       OR NOT EXISTS (SELECT 1 FROM schedule_firings f
                      WHERE f.schedule_id = ?1 AND f.workspace_id = ?2 AND f.due_at > ?3 AND f.execution_id IS NOT NULL))
ON CONFLICT (schedule_id, workspace_id, due_at) DO UPDATE SET execution_id = excluded.execution_id;

-- Only those of earlier times: after a clock was set back, a later one must not fire again. ?1 schedule, ?2 workspace, ?3 due time
-- name: remove_ended_firings
DELETE FROM schedule_firings
WHERE schedule_id = ?1 AND workspace_id = ?2 AND due_at < ?3 AND execution_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = execution_id);

-- ?1 schedule, ?2 due time, ?3 execution, ?4 now
-- name: note_firing
UPDATE schedules SET fired = fired + 1, last_due_at = ?2, last_execution_id = ?3, fired_at = ?4 WHERE id = ?1;

-- name: remove_firing
DELETE FROM schedule_firings WHERE schedule_id = ?1 AND workspace_id = ?2 AND due_at = ?3 AND execution_id IS NULL;

-- ?1 schedule, ?2 dropped firings
-- name: count_dropped_firings
UPDATE schedules SET dropped = dropped + ?2 WHERE id = ?1;

-- ?1 schedule, ?2 now, ?3 code, ?4 error, ?5 refused firings
-- name: note_schedule_refusal
UPDATE schedules SET refused = refused + ?5, refused_at = ?2, error_code = ?3, error = ?4 WHERE id = ?1;

-- ?1 schedule, ?2 workspace, ?3 due time
-- name: firing_is_triggered
SELECT is_triggered FROM schedule_firings WHERE schedule_id = ?1 AND workspace_id = ?2 AND due_at = ?3;

-- ?1 schedule, ?2 due time
-- name: remove_refusals_before
DELETE FROM schedule_refusals WHERE schedule_id = ?1 AND due_at < ?2;

-- Not behind a refusal of a later time. ?1 schedule, ?2 workspace, ?3 due time
-- name: insert_refusal
INSERT OR IGNORE INTO schedule_refusals (schedule_id, due_at, workspace_id)
SELECT ?1, ?3, ?2 WHERE NOT EXISTS (SELECT 1 FROM schedule_refusals r WHERE r.schedule_id = ?1 AND r.due_at > ?3);

-- ?1 schedule, ?2 workspace, ?3 due time
-- name: remove_refusal
DELETE FROM schedule_refusals WHERE schedule_id = ?1 AND due_at = ?3 AND workspace_id = ?2;

-- Whether a time has settled without a refusal, and there are refusals of earlier ones. ?1 schedule, ?2 due time
-- name: ends_refusals
SELECT EXISTS (SELECT 1 FROM schedule_refusals r WHERE r.schedule_id = ?1 AND r.due_at < ?2)
       AND NOT EXISTS (SELECT 1 FROM schedule_refusals r WHERE r.schedule_id = ?1 AND r.due_at >= ?2)
       AND NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = ?1 AND s.expands_at = ?2)
       AND NOT EXISTS (SELECT 1 FROM schedule_firings f WHERE f.schedule_id = ?1 AND f.execution_id IS NULL AND f.due_at = ?2);

-- By name. ?1 name or NULL, ?2 behind this cursor, ?3 limit
-- name: list_schedules
SELECT s.name, s.cron, s.zone, s.every AS every_us, s.jitter AS jitter_us,
       strftime('%Y-%m-%dT%H:%M:%S', s.starts_at / 1000000, 'unixepoch') || printf('.%06dZ', s.starts_at % 1000000) AS starts_at,
       strftime('%Y-%m-%dT%H:%M:%S', s.ends_at / 1000000, 'unixepoch') || printf('.%06dZ', s.ends_at % 1000000) AS ends_at,
       s.workflow, s.params,
       CASE WHEN s.workspaces IS NOT NULL
            THEN (SELECT json_group_array(w.name) FROM json_each(s.workspaces) i JOIN workspaces w ON w.id = i.value) END AS workspaces,
       (SELECT json_group_array(d.name) FROM json_each(s.workspaces) i JOIN deleted_workspaces d ON d.id = i.value) AS workspaces_deleted,
       s.plan, s.overlap, s.catch_up AS catch_up_us, iif(s.paused, 'true', 'false') AS paused,
       CASE WHEN s.paused = 0
            THEN strftime('%Y-%m-%dT%H:%M:%S', s.due_at / 1000000, 'unixepoch') || printf('.%06dZ', s.due_at % 1000000) END AS next_at,
       (SELECT count(*) FROM schedule_firings f WHERE f.schedule_id = s.id AND f.execution_id IS NULL) AS waiting,
       s.fired, s.skipped, s.dropped, s.refused,
       strftime('%Y-%m-%dT%H:%M:%S', s.last_due_at / 1000000, 'unixepoch') || printf('.%06dZ', s.last_due_at % 1000000) AS last_at,
       s.last_execution_id,
       coalesce((SELECT q.status FROM workflow_execution_queue q WHERE q.id = s.last_execution_id),
                (SELECT e.status FROM workflow_executions e WHERE e.id = s.last_execution_id)) AS last_status,
       strftime('%Y-%m-%dT%H:%M:%S', s.refused_at / 1000000, 'unixepoch') || printf('.%06dZ', s.refused_at % 1000000) AS refused_at,
       strftime('%Y-%m-%dT%H:%M:%S', r.due_at / 1000000, 'unixepoch') || printf('.%06dZ', r.due_at % 1000000) AS refused_due_at,
       iif(r.due_at IS NOT NULL OR s.retry_at IS NOT NULL, 'true', 'false') AS is_refused,
       s.error_code, s.error,
       CASE WHEN s.definition_owner IS NOT NULL
            THEN coalesce((SELECT w.name || '/' FROM workspaces w WHERE w.id = s.definition_owner), '') || s.workflow
       END AS definition_name,
       strftime('%Y-%m-%dT%H:%M:%S', s.created_at / 1000000, 'unixepoch') || printf('.%06dZ', s.created_at % 1000000) AS created_at
FROM schedules s
LEFT JOIN schedule_refusals r ON r.schedule_id = s.id
                              AND (r.due_at, r.workspace_id) = (SELECT x.due_at, x.workspace_id FROM schedule_refusals x
                                                                WHERE x.schedule_id = s.id
                                                                ORDER BY x.due_at DESC, x.workspace_id DESC LIMIT 1)
WHERE (?1 IS NULL OR s.name = ?1) AND s.name > ?2 ORDER BY s.name LIMIT ?3;
