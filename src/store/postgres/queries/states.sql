-- The states of workflows.

-- $1 execution, $2 state or NULL, $3 variables as JSON or NULL, $4 the state that it must be in or NULL, $5 actor, $6 reason
-- name: update_state
SELECT u.outcome, u.action, u.state, u.name, u.names FROM :schema.update_state($1, $2, $3, $4, $5, $6) u;

-- Behind the action $2, at most $3.
-- name: read_action_rows
SELECT a.action AS seq, a.state, a.outcome, a.next_state, :schema.rfc3339(a.started_at) AS started_at,
       :schema.rfc3339(a.finished_at) AS finished_at, (SELECT n.name FROM :schema.nodes n WHERE n.id = a.node_id) AS node, a.fence,
       a.actor, a.variables, a.error_code, a.error
FROM :schema.all_actions a WHERE a.execution_id = $1 AND a.action > $2 ORDER BY a.action LIMIT $3;

-- The number of the action before the last $2, and how many there are before them.
-- name: actions_before
SELECT coalesce(max(a.action), 0), count(*)
FROM :schema.all_actions a
WHERE a.execution_id = $1
  AND a.action <= (SELECT b.action FROM :schema.all_actions b WHERE b.execution_id = $1 ORDER BY b.action DESC LIMIT 1 OFFSET $2);
