-- Enqueue.

-- $1 ids, $2 which of them were given, $3 workspaces, $4 workflows, $5 params, $6 keys, $7 groups, $8 priorities, $9 run_at (0 = now),
-- $10 groups where neither $7 nor the definition names one, $11 trace contexts, $12 business keys, $13 labels, $14 how long it waits for
-- locks (NULL = as the connection), which is set before the function is called, because that needs the row
-- name: enqueue_set
SELECT e.status, e.id, e.duplicate, e.message, e.hint, :schema.store_time()
FROM set_config('lock_timeout', coalesce($14, current_setting('lock_timeout')), true) l (wait)
CROSS JOIN LATERAL
     :schema.enqueue_set(CASE WHEN l.wait <> '' THEN $1::uuid[] END, $2, $3, $4, $5, $6, $7, $8,
                         ARRAY(SELECT nullif(u.run_at, 0) FROM unnest($9) WITH ORDINALITY u(run_at, place) ORDER BY u.place),
                         $10, $11, $12, $13) e
ORDER BY e.place;

-- The same for one request. $2 whether the id was given, $9 run_at (NULL = now), $10 the group where neither $7 nor the definition names
-- one, $11 whether nodes see it before it is on disk; then `flush` must follow in the same server process. $12 the trace context,
-- $13 the business key, $14 labels, $15 as $14 of enqueue_set. The argument of the function sets it, and only where
-- there is one. A scan of set_config() in each call would take a twelfth of it after a pause.
-- name: enqueue_one
SELECT e.status, e.id, e.duplicate, e.message, e.hint, :schema.store_time(), pg_backend_pid(),
       CASE WHEN $11 THEN set_config('synchronous_commit', 'off', true) END
FROM :schema.enqueue_one(CASE WHEN $15::text IS NULL OR set_config('lock_timeout', $15, true) <> '' THEN $1::uuid END,
                         $2, $3, $4, $5, $6, $7, $8, $9, $10, $12, $13, $14) e;

-- One request whose key has a mode: $11 trace context, $12 business key, $13 labels, $14 mode, $15 window and $16 longest delay of a
-- debounce, $17 actor, $18 as $14 of enqueue_set.
-- name: enqueue_keyed
SELECT e.status, e.id, e.duplicate, e.message, e.hint, :schema.store_time(), e.replaced
FROM set_config('lock_timeout', coalesce($18, current_setting('lock_timeout')), true) l (wait)
CROSS JOIN LATERAL
     :schema.enqueue_keyed(CASE WHEN l.wait <> '' THEN $1::uuid END, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                           $17) e;

-- $1 workspaces, $2 keys.
-- name: lock_keys
SELECT :schema.lock_keys($1, $2);

-- $1 schedules, $2 workspaces, $3 due times, $4 planned ids.
-- name: lock_firings
SELECT f.waits FROM :schema.lock_firings($1, $2, $3, $4) f ORDER BY f.place;

-- Its transaction writes to the log, so its commit waits for the disk, and with it all that was committed before.
-- name: flush
SELECT pg_backend_pid(), pg_logical_emit_message(true, 'weir', '');

-- On a caller's own connection. $6 microseconds, 0 = now. $12 the mode of the key, $13 and $14 window and longest delay, 0 = none.
-- name: try_enqueue
SELECT e.code, e.id, e.duplicate, e.message, e.hint
FROM :schema.try_enqueue($1, $2, $3, $4, $5, CASE WHEN $6 <> 0 THEN :schema.time_of($6) END, $7, $8, $9, $10, $11, $12,
                         nullif($13, 0) * interval '1 microsecond', nullif($14, 0) * interval '1 microsecond') e;

-- Names for "did you mean".
-- name: workspace_names
SELECT name FROM :schema.workspaces ORDER BY id LIMIT 1000;

-- name: workflow_names
SELECT DISTINCT name FROM :schema.workflow_definitions
WHERE state <> 2 AND workspace_id IN (0, (SELECT w.id FROM :schema.workspaces w WHERE w.name = $1)) LIMIT 1000;
