-- Schedules and their firings.

-- $1 name, $2 cron or NULL, $3 zone or NULL, $4 interval; 0 = none, $5 jitter, $6 first time; 0 = none, $7 last time; 0 = none,
-- $8 workflow, $9 params, $10 workspaces, $11 plan or NULL, $12 overlap policy, $13 catch-up, $14 due time, $15 at most, $16 actor,
-- $17 reason
-- name: set_schedule
SELECT s.status, s.is_new, s.unknown
FROM :schema.set_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) s;

-- $1 name, $2 paused, $3 actor, $4 reason
-- name: pause_schedule
SELECT :schema.pause_schedule($1, $2, $3, $4);

-- $1 name, $2 actor, $3 reason
-- name: delete_schedule
SELECT d.status, d.owner FROM :schema.delete_schedule($1, $2, $3) d;

-- $1 name, $2 names of workspaces, $3 time; 0 = now, $4 key or NULL, $5 firings of a part, $6 firings that may wait in a workspace,
-- $7 actor, $8 reason, $9 arguments for the record or NULL
-- name: trigger_schedule
SELECT t.status, t.unknown, t.firings, t.skipped, t.existing, t.rest
FROM :schema.trigger_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9) t;

-- name: schedule_names
SELECT name FROM :schema.schedules ORDER BY name LIMIT 1000;

-- The schedules that are due, and at least one row, which has no schedule when none is. A schedule that inserts its firings in parts is
-- due at once. $1 limit
-- name: read_due_schedules
SELECT d.id, d.name, d.cron, d.zone, d.every, d.starts_at, d.ends_at, d.due_at, d.catch_up, d.expands_at, d.overlap, n.now_us,
       (SELECT CASE WHEN x.expands_at IS NOT NULL THEN coalesce(x.retry_at, 0) ELSE greatest(x.due_at, x.retry_at) END
        FROM :schema.schedules x
        WHERE (x.expands_at IS NOT NULL OR NOT x.paused AND x.due_at IS NOT NULL)
          AND CASE WHEN x.expands_at IS NOT NULL THEN coalesce(x.retry_at, 0) ELSE greatest(x.due_at, x.retry_at) END > n.now_us
        ORDER BY CASE WHEN x.expands_at IS NOT NULL THEN coalesce(x.retry_at, 0) ELSE greatest(x.due_at, x.retry_at) END LIMIT 1),
       EXISTS (SELECT 1 FROM :schema.schedule_firings f WHERE f.execution_id IS NULL)
FROM (SELECT :schema.store_time() AS now_us OFFSET 0) n
LEFT JOIN LATERAL (SELECT s.id, s.name, s.cron, s.zone, coalesce(s.every, 0) AS every, coalesce(s.starts_at, 0) AS starts_at,
                          coalesce(s.ends_at, 0) AS ends_at, coalesce(s.due_at, 9223372036854775807) AS due_at, s.catch_up,
                          coalesce(s.expands_at, 9223372036854775807) AS expands_at, s.overlap
                   FROM :schema.schedules s
                   WHERE (s.expands_at IS NOT NULL OR NOT s.paused AND s.due_at IS NOT NULL)
                     AND CASE WHEN s.expands_at IS NOT NULL THEN coalesce(s.retry_at, 0) ELSE greatest(s.due_at, s.retry_at) END
                         <= n.now_us
                   ORDER BY CASE WHEN s.expands_at IS NOT NULL THEN coalesce(s.retry_at, 0) ELSE greatest(s.due_at, s.retry_at) END
                   LIMIT $1) d ON true
ORDER BY d.due_at;

-- $1 id, $2 due time as it was read, $3 time that is continued, as it was read, $4 times that fire, $5 next time, $6 dropped times,
-- $7 passed times, $8 code, $9 error, $10 time of the next try; 0 = none, $11 firings of a part, $12 firings that may wait in a workspace
-- name: advance_schedule
SELECT a.is_done, a.firings, a.skipped, a.rest FROM :schema.advance_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) a;

-- The oldest waiting firing of each schedule and workspace that may start, or that needs the cancel of the execution before it. Its age
-- counts from its insertion, or from the end of the execution that it waited for. Each kind has a limit of its own, so that none hides the
-- other. $1 limit of those that may start, $2 executions that may wait in a workspace, if its own limit is not less, $3 limit of those
-- that need a cancel
-- name: read_schedule_firings
SELECT f.schedule_id, f.workspace_id, s.name, (SELECT w.name FROM :schema.workspaces w WHERE w.id = f.workspace_id), s.workflow, s.params,
       f.due_at, CASE WHEN f.is_triggered THEN 0 ELSE s.jitter END,
       coalesce((SELECT sum(b.runnable + b.waiting) FROM :schema.books b WHERE b.workspace_id = f.workspace_id), 0)
       >= least($2, (SELECT nullif(w.pending_max, 0) FROM :schema.workspaces w WHERE w.id = f.workspace_id)), f.running,
       f.planned_id,
       f.running IS NULL AND NOT f.is_triggered
       AND greatest(f.created_at, (SELECT max(h.finished_at)
                                   FROM :schema.schedule_firings r JOIN :schema.workflow_executions h ON h.id = r.execution_id
                                   WHERE r.schedule_id = f.schedule_id AND r.workspace_id = f.workspace_id)) < n.now_us - s.catch_up,
       s.plan IS NOT NULL,
       CASE WHEN f.running IS NOT NULL
            THEN coalesce((SELECT d.state FROM :schema.workflow_definitions d
                           WHERE d.name = s.workflow AND d.workspace_id IN (f.workspace_id, 0) AND d.state <> 2
                           ORDER BY d.workspace_id DESC, d.version DESC LIMIT 1), 2)
            ELSE 0 END
FROM (SELECT p.*, row_number() OVER (PARTITION BY p.running IS NULL ORDER BY p.due_at) AS place
      FROM (SELECT o.schedule_id, o.workspace_id, o.due_at, o.is_triggered, o.created_at, o.planned_id,
                   (SELECT q.id FROM :schema.schedule_firings r JOIN :schema.workflow_execution_queue q ON q.id = r.execution_id
                    WHERE r.schedule_id = o.schedule_id AND r.workspace_id = o.workspace_id LIMIT 1) AS running
            FROM (SELECT DISTINCT ON (x.schedule_id, x.workspace_id)
                         x.schedule_id, x.workspace_id, x.due_at, x.is_triggered, x.created_at, x.planned_id
                  FROM :schema.schedule_firings x
                  WHERE x.execution_id IS NULL
                  ORDER BY x.schedule_id, x.workspace_id, x.due_at) o) p
      JOIN :schema.schedules y ON y.id = p.schedule_id
      WHERE p.running IS NULL
            OR y.overlap = 'cancel_running'
               AND EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = p.running AND q.cancel_at IS NULL)) f
JOIN :schema.schedules s ON s.id = f.schedule_id
CROSS JOIN (SELECT :schema.store_time() AS now_us OFFSET 0) n
WHERE f.place <= CASE WHEN f.running IS NULL THEN $1 ELSE $3 END
ORDER BY f.due_at;

-- $1 ids of schedules, $2 ids of workspaces, $3 due times, $4 executions, $5 whether they are dropped, $6 codes,
-- $7 errors
-- name: settle_schedule_firings
SELECT t.place, t.execution_id FROM :schema.settle_schedule_firings($1, $2, $3, $4, $5, $6, $7) t;

-- By name. $1 name or NULL, $2 behind this cursor, $3 limit
-- name: list_schedules
SELECT s.name, s.cron, s.zone, s.every AS every_us, s.jitter AS jitter_us,
       :schema.rfc3339(s.starts_at) AS starts_at, :schema.rfc3339(s.ends_at) AS ends_at, s.workflow, s.params::json AS params,
       :schema.workspace_names(s.workspaces) AS workspaces,
       (SELECT coalesce(json_agg(d.name ORDER BY array_position(s.workspaces, d.id)), '[]') FROM :schema.deleted_workspaces d
        WHERE d.id = ANY (s.workspaces)) AS workspaces_deleted,
       s.plan, s.overlap, s.catch_up AS catch_up_us, s.paused,
       CASE WHEN NOT s.paused THEN :schema.rfc3339(s.due_at) END AS next_at,
       (SELECT count(*) FROM :schema.schedule_firings f WHERE f.schedule_id = s.id AND f.execution_id IS NULL) AS waiting,
       s.fired, s.skipped, s.dropped, s.refused, :schema.rfc3339(s.last_due_at) AS last_at, s.last_execution_id,
       coalesce((SELECT q.status FROM :schema.workflow_execution_queue q WHERE q.id = s.last_execution_id),
                (SELECT e.status FROM :schema.workflow_executions e WHERE e.id = s.last_execution_id)) AS last_status,
       :schema.rfc3339(s.refused_at) AS refused_at,
       :schema.rfc3339(r.due_at) AS refused_due_at, r.due_at IS NOT NULL OR s.retry_at IS NOT NULL AS is_refused, s.error_code, s.error,
       :schema.definition_of_schedule(s.definition_owner, s.workflow) AS definition_name,
       :schema.rfc3339(s.created_at) AS created_at
FROM :schema.schedules s
LEFT JOIN LATERAL (SELECT x.due_at FROM :schema.schedule_refusals x
                   WHERE x.schedule_id = s.id ORDER BY x.due_at DESC LIMIT 1) r ON true
WHERE ($1 IS NULL OR s.name = $1) AND s.name > $2 ORDER BY s.name LIMIT $3;
