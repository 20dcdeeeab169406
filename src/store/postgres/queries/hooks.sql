-- Hooks and the outbox of their events.

-- $1 name, $2 ends, $3 workspace or NULL, $4 workflow or NULL, $5 workspace to start in, $6 workflow to start, $7 at most, $8 actor,
-- $9 reason
-- name: set_hook
SELECT s.status, s.is_new, s.unknown FROM :schema.set_hook($1, $2, $3, $4, $5, $6, $7, $8, $9) s;

-- $1 name, $2 paused, $3 actor, $4 reason
-- name: pause_hook
SELECT :schema.pause_hook($1, $2, $3, $4);

-- $1 name, $2 actor, $3 reason
-- name: delete_hook
SELECT :schema.delete_hook($1, $2, $3);

-- name: hook_names
SELECT name FROM :schema.hooks ORDER BY name LIMIT 1000;

-- The oldest events of each hook that takes them, and at least one row, which has no event when there is none. $1 limit of all hooks,
-- $2 executions that may wait in the workspace to start in
-- name: read_hook_events
WITH takers AS MATERIALIZED (
    SELECT h.id, h.name, h.start_workspace_id, h.start_workflow,
           coalesce((SELECT sum(b.runnable + b.waiting + b.parked) FROM :schema.books b
                     WHERE b.workspace_id = h.start_workspace_id), 0) >= $2 AS is_backlogged
    FROM :schema.hooks h
    WHERE NOT h.paused AND h.retry_at <= :schema.store_time()
), events AS (
    SELECT x.id, t.id AS hook_id, t.name, x.execution_id,
           (SELECT w.name FROM :schema.workspaces w WHERE w.id = t.start_workspace_id) AS workspace, t.start_workflow, x.params,
           t.is_backlogged, (SELECT h.traceparent FROM :schema.workflow_executions h WHERE h.id = x.execution_id) AS traceparent
    FROM takers t
    CROSS JOIN LATERAL (SELECT o.id, o.execution_id, o.params FROM :schema.hook_outbox o WHERE o.hook_id = t.id
                        ORDER BY o.hook_id, o.at, o.id LIMIT greatest($1 / greatest((SELECT count(*) FROM takers), 1), 1)) x
    LIMIT $1
)
SELECT e.id, e.hook_id, e.name, e.execution_id, e.workspace, e.start_workflow, e.params, e.is_backlogged, e.traceparent,
       EXISTS (SELECT 1 FROM :schema.hook_outbox)
FROM (SELECT 1) one LEFT JOIN events e ON true
ORDER BY e.id;

-- $1 numbers of events, $2 their hooks, $3 codes of refused ones, $4 their errors, $5 1 = dropped,
-- $6 how long the events of their hooks wait
-- name: settle_hook_events
WITH outcomes AS (
    SELECT u.number, u.hook_id, u.code, u.error, u.dropped, u.place
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[])
         WITH ORDINALITY u (number, hook_id, code, error, dropped, place)
), removed AS (
    DELETE FROM :schema.hook_outbox o USING outcomes u WHERE o.id = u.number AND u.code IS NULL RETURNING o.hook_id, u.dropped
), verdicts AS (
    SELECT DISTINCT ON (u.hook_id) u.hook_id, u.code, u.error,
           (SELECT coalesce(sum(r.dropped), 0) FROM removed r WHERE r.hook_id = u.hook_id) AS dropped
    FROM outcomes u ORDER BY u.hook_id, u.code IS NULL, u.place
)
UPDATE :schema.hooks h
SET error_code = v.code, error = v.error, retry_at = CASE WHEN v.code IS NULL THEN h.retry_at ELSE :schema.store_time() + $6 END,
    dropped = h.dropped + v.dropped
FROM verdicts v WHERE h.id = v.hook_id AND (v.code IS NOT NULL OR h.error_code IS NOT NULL OR v.dropped > 0);

-- $1 how long an event is kept, $2 events that a hook may have, $3 limit
-- name: drop_hook_events
WITH old AS (
    SELECT o.id
    FROM :schema.hooks h
    CROSS JOIN LATERAL (SELECT greatest(:schema.store_time() - $1,
                                        (SELECT x.at + 1 FROM :schema.hook_outbox x WHERE x.hook_id = h.id
                                         ORDER BY x.hook_id DESC, x.at DESC LIMIT 1 OFFSET $2)) AS before) b
    JOIN :schema.hook_outbox o ON o.hook_id = h.id AND o.at < b.before
    LIMIT $3
), orphans AS (
    SELECT o.id FROM :schema.hook_outbox o WHERE NOT EXISTS (SELECT 1 FROM :schema.hooks h WHERE h.id = o.hook_id) LIMIT $3
), removed AS (
    DELETE FROM :schema.hook_outbox o
    WHERE o.id = ANY (ARRAY(SELECT a.id FROM (SELECT l.id FROM old l UNION ALL SELECT n.id FROM orphans n) a LIMIT $3))
    RETURNING o.hook_id
), counted AS (
    UPDATE :schema.hooks h SET dropped = h.dropped + r.events
    FROM (SELECT m.hook_id, count(*) AS events FROM removed m GROUP BY m.hook_id) r WHERE h.id = r.hook_id
)
SELECT count(*) FROM removed;

-- By name. $1 name or NULL, $2 behind this cursor, $3 limit
-- name: list_hooks
SELECT h.name, to_jsonb(h."on") AS "on",
       CASE WHEN h.workspace_id IS NOT NULL
            THEN coalesce((SELECT w.name FROM :schema.workspaces w WHERE w.id = h.workspace_id),
                          (SELECT t.name FROM :schema.deleted_workspaces t WHERE t.id = h.workspace_id)) END AS workspace,
       h.workflow,
       coalesce((SELECT w.name FROM :schema.workspaces w WHERE w.id = h.start_workspace_id),
                (SELECT t.name FROM :schema.deleted_workspaces t WHERE t.id = h.start_workspace_id)) AS start_workspace,
       h.start_workflow, h.paused, (SELECT count(*) FROM :schema.hook_outbox o WHERE o.hook_id = h.id) AS waiting,
       (h.workspace_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = h.workspace_id))
           OR NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = h.start_workspace_id) AS workspace_deleted,
       h.dropped, h.error_code, h.error, :schema.rfc3339(h.created_at) AS created_at
FROM :schema.hooks h WHERE ($1 IS NULL OR h.name = $1) AND h.name > $2 ORDER BY h.name LIMIT $3;
