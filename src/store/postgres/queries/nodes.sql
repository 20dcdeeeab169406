-- Nodes, leases, recovery.

-- A process that starts its node again after a lost lease keeps the orders of an operator. Rows of nodes that were recovered long ago
-- are deleted. $1 name, $2 group, $3 host, $4 boot id, $5 pid, $6 keeper's pid, $7 version, $8 engine, $9 lease, $10 the time for which
-- rows of recovered nodes are kept, $11 is outlived, $12 not_accepting, $13 capacity, $14 life, $15 engine of its target or NULL = its
-- target is not known yet, $16 service, $17 namespace, $18 address, $19 starts paused
-- name: start_node
WITH deleted AS (
    DELETE FROM :schema.nodes n WHERE n.recovered_at IS NOT NULL AND n.recovered_at < :schema.store_time() - $10
), made AS (
    INSERT INTO :schema.executor_groups (name)
    SELECT $2 WHERE NOT EXISTS (SELECT 1 FROM :schema.executor_groups g WHERE g.name = $2) ON CONFLICT DO NOTHING
), started AS (
    INSERT INTO :schema.nodes (id, name, executor_group, host, boot_id, pid, keeper_pid, life, version, engine, is_outlived,
                               lease, heard_by, started_at, active_at, expires_at, not_accepting, capacity, target_id,
                               desired_state)
    SELECT t.now_us / 1000000 * 10000 + nextval(':schema.registrations') % 10000,
           $1, $2, $3, $4, $5, $6, $14, $7, $8, $11, $9, :schema.server_identity(), t.now_us, t.now_us, t.now_us + $9, $12, $13,
           CASE WHEN $15::text IS NULL THEN 0 ELSE :schema.keep_target($15, $16, $17, $18) END,
           coalesce((SELECT CASE WHEN n.stopped_at IS NULL THEN n.desired_state END FROM :schema.nodes n
                     WHERE n.name = $1 AND n.executor_group = $2 AND n.boot_id = $4 AND n.pid = $5 ORDER BY n.id DESC LIMIT 1),
                    CASE WHEN $19 THEN 'pause' ELSE 'run' END)
    FROM (SELECT :schema.store_time() AS now_us) t
    RETURNING id, started_at
), feed AS (
    INSERT INTO :schema.news (at, kind, node_id) SELECT s.started_at, 8, s.id FROM started s
)
SELECT s.id, :schema.notify_news() FROM started s;

-- $1 node, $2 engine, $3 service, $4 namespace, $5 address. Another target than before is an act (7): the scheduler must read the
-- node again before it assigns to it.
-- name: node_target
WITH target AS MATERIALIZED (
    SELECT :schema.keep_target($2, $3, $4, $5) AS id
), changed AS (
    UPDATE :schema.nodes n SET target_id = t.id FROM target t, :schema.nodes o
    WHERE n.id = $1 AND o.id = $1 AND n.dead_at IS NULL AND n.stopped_at IS NULL
    RETURNING o.target_id AS before, n.target_id AS after
), feed AS (
    INSERT INTO :schema.news (at, kind, node_id, workspaces)
    SELECT :schema.store_time(), CASE c.before WHEN 0 THEN 8 ELSE 7 END, $1, '{}' FROM changed c WHERE c.before <> c.after
    RETURNING :schema.notify_news()
)
SELECT count(*), (SELECT count(*) FROM feed) FROM changed;

-- Records the handlers of a node, and makes items of its group due that wait because no node had their handlers, and that it can run.
-- Items that another transaction holds stay as they are. A handler that the node had before and has not now is an act (7), so that the
-- scheduler assigns nothing that needs it before it has read the news.
-- $1 node, $2 language, $3 JSON array of names, $4 at most. Columns: nodes, items
-- Locks: the node, then the items. Index: queue_unserved.
-- name: node_handlers
WITH offered AS (
    UPDATE :schema.nodes n SET language = $2, handlers = $3::jsonb, handlers_left = coalesce((
        SELECT jsonb_object_agg(w.name, w.at)
        FROM (SELECT l.key AS name, l.value AS at FROM jsonb_each(o.handlers_left) l
              UNION ALL SELECT h.name, to_jsonb(:schema.store_time()) FROM jsonb_array_elements_text(o.handlers) h (name)) w
        WHERE NOT $3::jsonb ? w.name), '{}')
    FROM (SELECT k.handlers, k.handlers_left FROM :schema.nodes k WHERE k.id = $1 FOR UPDATE) o
    WHERE n.id = $1 AND n.dead_at IS NULL AND n.stopped_at IS NULL
    RETURNING n.id, n.executor_group, n.handlers, o.handlers AS before, :schema.store_time() AS now_us
), woken AS (
    UPDATE :schema.workflow_execution_queue q SET due_at = f.now_us
    FROM offered f
    WHERE q.id = ANY (ARRAY(
        SELECT w.id FROM offered o JOIN :schema.executor_groups g ON g.name = o.executor_group
        CROSS JOIN :schema.workflow_execution_queue w JOIN :schema.workflow_definitions d ON d.id = w.definition_id
        WHERE w.error_code = 'unknown_handler' AND w.due_at IS NOT NULL AND w.due_at > o.now_us AND w.lane_id >> 47 = g.id
          AND d.handlers <@ o.handlers
        LIMIT $4 FOR NO KEY UPDATE OF w SKIP LOCKED))
    RETURNING q.due_at
), feed AS (
    INSERT INTO :schema.news (at, kind, node_id, due, workspaces)
    SELECT o.now_us, CASE WHEN o.before <@ o.handlers THEN 8 ELSE 7 END, $1, (SELECT min(w.due_at) FROM woken w), '{}'
    FROM offered o
    WHERE EXISTS (SELECT 1 FROM woken) OR NOT (o.before <@ o.handlers AND o.before @> o.handlers)
    RETURNING :schema.notify_news()
)
SELECT (SELECT count(*) FROM offered), (SELECT count(*) FROM woken), (SELECT count(*) FROM feed);

-- The answer contains the facts that recovery needs of the other nodes of the group, so that no node queries them. It has a row for one
-- that is lost (first), and for each that lives; at least one row. $5 limits the nodes of the same machine, and those of other machines.
-- They are those whose ids follow the own one, as in a ring: so each is watched by some, however many there are, and no clock chooses them.
-- $1 node, $2 engine reachable, $3 running, $4 stuck, $6 the engine's last error, $7 its keeper, $8 not_accepting, $9 capacity. News only
-- when the node accepts more or less than in its last heartbeat. Less is an act (7), so that the scheduler assigns nothing to it before it
-- has read that. $10 how many heartbeats were answered: a row with fewer is of a backup, and the node has lost its lease. $11 engine
-- impaired, $12 for how long each step of its dispatch loop has failed, 0 = it does not fail, $13 the error of the last one,
-- $14 and $15 the same of its records.
-- Index: nodes_unrecovered.
-- name: beat_node
WITH beat AS (
    UPDATE :schema.nodes n
    SET active_at = t.now_us, expires_at = t.now_us + n.lease, beats = n.beats + 1, heard_by = :schema.server_identity(),
        engine_reachable = $2, running = $3, stuck = $4, engine_error = $6, keeper_pid = $7, not_accepting = $8, capacity = $9,
        engine_unreachable_at = CASE WHEN NOT $2 THEN coalesce(n.engine_unreachable_at, t.now_us) END,
        engine_impaired_at = CASE WHEN $11 THEN coalesce(n.engine_impaired_at, t.now_us) END,
        dispatch_failed_at = CASE WHEN $12 > 0 THEN coalesce(n.dispatch_failed_at, t.now_us - $12) END, dispatch_error = $13,
        record_failed_at = CASE WHEN $14 > 0 THEN coalesce(n.record_failed_at, t.now_us - $14) END, record_error = $15,
        drained_at = CASE WHEN n.desired_state = 'drain' AND $3 = 0
                               AND NOT EXISTS (SELECT 1 FROM :schema.held_items q WHERE q.claim_node = n.id)
                          THEN coalesce(n.drained_at, t.now_us) END
    FROM (SELECT :schema.store_time() AS now_us OFFSET 0) t, :schema.nodes o
    WHERE n.id = $1 AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.beats >= $10 AND o.id = $1
    RETURNING n.id, n.desired_state, n.active_at, n.executor_group, n.boot_id, n.beats, n.heard_by,
              CASE WHEN o.expires_at > t.now_us AND o.engine_reachable AND o.not_accepting IS NULL THEN o.capacity ELSE 0 END
              AS old_capacity,
              CASE WHEN $2 AND $8::text IS NULL THEN $9 ELSE 0 END AS new_capacity
), feed AS (
    INSERT INTO :schema.news (at, kind, node_id, workspaces)
    SELECT b.active_at, CASE WHEN b.new_capacity < b.old_capacity THEN 7 ELSE 8 END, b.id, '{}'
    FROM beat b WHERE b.new_capacity <> b.old_capacity
    RETURNING :schema.notify_news()
), other_nodes AS (
    SELECT o.id, o.pid, o.keeper_pid, o.life, o.beats, o.lease, l.lost, o.boot_id = b.boot_id AS is_here,
           row_number() OVER (PARTITION BY l.lost, o.boot_id = b.boot_id ORDER BY o.id < b.id, o.id) AS place
    FROM beat b JOIN :schema.nodes o ON o.recovered_at IS NULL AND o.id <> b.id AND o.executor_group = b.executor_group
    CROSS JOIN LATERAL (SELECT o.dead_at IS NOT NULL OR o.stopped_at IS NOT NULL AS lost) l
)
SELECT b.desired_state, (SELECT s.queue_paused FROM :schema.store_state s WHERE s.id = 1)
               OR coalesce((SELECT g.paused FROM :schema.executor_groups g WHERE g.name = b.executor_group), false),
       b.active_at, b.beats, b.heard_by, o.lost, o.id, o.pid, o.keeper_pid, o.life, o.beats, o.lease, o.is_here
FROM beat b LEFT JOIN other_nodes o ON o.place <= CASE WHEN o.lost THEN 1 ELSE $5 END
ORDER BY o.lost DESC NULLS LAST, o.id;

-- $1 node, $2 graceful, $3 limit
-- Since when items are stuck. The rows are locked in the order of their ids, as records lock them. $1 ids, $2 fences, $3 for how long,
-- -1 = not stuck
-- name: mark_stuck
WITH mark AS MATERIALIZED (
    SELECT q.id, m.stuck_for FROM unnest($1, $2, $3) m (id, fence, stuck_for)
    JOIN :schema.workflow_execution_queue q ON q.id = m.id AND q.fence = m.fence AND q.phase = 2
    ORDER BY q.id FOR NO KEY UPDATE OF q
)
UPDATE :schema.workflow_execution_queue q
SET stuck_at = CASE WHEN m.stuck_for >= 0 THEN :schema.store_time() - m.stuck_for END,
    stuck_fence = CASE WHEN m.stuck_for >= 0 THEN q.fence END
FROM mark m WHERE q.id = m.id;

-- name: stop_node
SELECT :schema.stop_node($1, $2, $3);

-- $1 name or id, $2 state, $3 actor, $4 reason, $5 act
-- name: set_desired_state
WITH changed AS (
    UPDATE :schema.nodes n SET desired_state = $2, drained_at = CASE WHEN $2 = 'drain' THEN n.drained_at END
    FROM :schema.nodes o
    WHERE o.id = n.id AND (n.name = $1 OR n.id::text = $1) AND n.stopped_at IS NULL AND n.dead_at IS NULL
    RETURNING n.id, n.name, o.desired_state AS old_state
), noted AS (
    SELECT :schema.record_act($3, $4, $5, w.name, jsonb_build_object('desired_state', w.old_state),
                              jsonb_build_object('desired_state', $2), 0) FROM changed w
), feed AS (
    INSERT INTO :schema.news (at, kind, workspaces)
    SELECT :schema.store_time(), CASE $2 WHEN 'run' THEN 8 ELSE 7 END, '{}' FROM changed w WHERE w.old_state <> $2
    RETURNING :schema.notify_news()
)
SELECT count(*), (SELECT count(*) FROM feed), (SELECT count(*) FROM noted) FROM changed;

-- name: live_node_names
SELECT n.name FROM :schema.nodes n WHERE n.recovered_at IS NULL AND n.stopped_at IS NULL AND n.dead_at IS NULL ORDER BY n.id LIMIT 100;

-- The nodes that recover would change, but for stale claims, and those of one machine that may have died before their lease
-- ends. $1 group or NULL, $2 boot id of the machine or NULL, $3 the caller, $4 limit, $5 silent nodes and $6 their heartbeats.
-- Index: nodes_unrecovered.
-- name: nodes_to_recover
SELECT k.lost, k.id, k.pid, k.keeper_pid, k.life
FROM (SELECT n.id, n.pid, n.keeper_pid, n.life,
             n.dead_at IS NOT NULL OR n.stopped_at IS NOT NULL
                 OR coalesce(n.beats = ($6::bigint[])[array_position($5::bigint[], n.id)], false) AS lost,
             coalesce(n.boot_id = $2, false) AND n.id <> $3 AS is_neighbour
      FROM :schema.nodes n
      WHERE n.recovered_at IS NULL AND ($1::text IS NULL OR n.executor_group = $1)) k
WHERE k.lost OR k.is_neighbour ORDER BY k.lost DESC, k.id LIMIT $4;

-- Claims that are too old: CLAIMED by $1 itself, or by a node that does not live; $1 = 0: by any node. $2 the age, $3 group or NULL,
-- $4 limit.
-- name: stale_claims
SELECT q.id, q.fence FROM :schema.held_items q
WHERE q.claim_node > 0 AND q.status = 'CLAIMED' AND q.claimed_at <= :schema.store_time() - $2
  AND ($1 = 0 OR q.node_id = $1
       OR NOT EXISTS (SELECT 1 FROM :schema.nodes n WHERE n.id = q.node_id AND n.dead_at IS NULL AND n.stopped_at IS NULL))
  AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM :schema.executor_groups g WHERE g.id = q.lane_id >> 47 AND g.name = $3))
LIMIT $4;

-- $1 group or NULL, $2 nodes without their processes, $3 silent nodes, $4 their heartbeats, $5 the server of these, $6 $7 stale claims,
-- $8 most handovers, $9 limit
-- name: recover_items
SELECT r.handed_over, r.poisoned, r.nodes, r.more, r.names FROM :schema.recover($1, $2, $3, $4, $5, $6, $7, $8, $9) r;
