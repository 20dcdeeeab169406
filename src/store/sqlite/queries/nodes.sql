-- Nodes, leases, recovery, locks.

-- A process that stands up again after a lost lease keeps the orders of an operator. The id begins with the second of the
-- registration: a store that is restored from a backup gives none out a second time.
-- name: insert_node
INSERT INTO nodes (id, name, executor_group, host, boot_id, pid, keeper_pid, life, version, engine, is_outlived, lease,
                   started_at, active_at, expires_at, not_accepting, capacity, desired_state)
VALUES (max((SELECT coalesce(max(id), 0) + 1 FROM nodes), ?10 / 1000000 * 10000),
        ?1, ?2, ?3, ?4, ?5, ?6, ?14, ?7, ?8, ?11, ?9, ?10, ?10, ?10 + ?9, ?12, ?13,
        coalesce((SELECT CASE WHEN n.stopped_at IS NULL THEN n.desired_state END FROM nodes n
                  WHERE n.name = ?1 AND n.executor_group = ?2 AND n.boot_id = ?4 AND n.pid = ?5 ORDER BY n.id DESC LIMIT 1),
                 iif(?15, 'pause', 'run')))
RETURNING id;

-- ?1 engine, ?2 service, ?3 namespace, ?4 address
-- name: keep_target
INSERT INTO engine_targets (engine, service, namespace, address) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (engine, service, namespace) DO UPDATE SET address = excluded.address
RETURNING id;

-- name: target_of_node
SELECT target_id FROM nodes WHERE id = ?1 AND dead_at IS NULL AND stopped_at IS NULL;

-- name: set_node_target
UPDATE nodes SET target_id = ?2 WHERE id = ?1;

-- The handlers that a node has on record, against those that it has now: whether some are new, and whether some are missing. ?1 node,
-- ?2 JSON array of names
-- name: change_of_handlers
SELECT EXISTS (SELECT 1 FROM json_each(?2) h WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o))
     + 2 * EXISTS (SELECT 1 FROM json_each(n.handlers) o WHERE o.value NOT IN (SELECT h.value FROM json_each(?2) h))
FROM nodes n WHERE n.id = ?1 AND n.dead_at IS NULL AND n.stopped_at IS NULL;

-- ?1 node, ?2 language, ?3 JSON array of names, ?4 now
-- name: set_node_handlers
UPDATE nodes SET language = ?2, handlers = ?3, handlers_left = (
    SELECT json_group_object(w.name, w.at)
    FROM (SELECT l.key AS name, l.value AS at FROM json_each(handlers_left) l
          UNION ALL SELECT o.value, ?4 FROM json_each(handlers) o) w
    WHERE w.name NOT IN (SELECT h.value FROM json_each(?3) h))
WHERE id = ?1 AND dead_at IS NULL AND stopped_at IS NULL;

-- Items of the group of a node that wait because no node had their handlers, and that this node can run. ?1 node, ?2 now, ?3 at
-- most. Index: queue_unserved.
-- name: wake_unserved
UPDATE workflow_execution_queue SET due_at = ?2
WHERE number IN (
    SELECT q.number FROM nodes n JOIN executor_groups g ON g.name = n.executor_group
    CROSS JOIN workflow_definitions d CROSS JOIN workflow_execution_queue q INDEXED BY queue_unserved ON q.definition_id = d.id
    WHERE n.id = ?1 AND d.handlers <> '[]' AND q.error_code = 'unknown_handler' AND q.due_at IS NOT NULL AND q.due_at > ?2
      AND q.lane_id >> 47 = g.id
      AND NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                      WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o))
    LIMIT ?3);

-- Nodes that are long gone and recovered (nFlow keeps them for a year). ?1 before when. Index: none is needed, the table is short.
-- name: forget_nodes
DELETE FROM nodes WHERE recovered_at IS NOT NULL AND recovered_at < ?1;

-- Another node that lives, or this very process under an earlier id. ?1 now, ?2 boot id, ?3 pid
-- name: live_node_exists
SELECT 1 FROM nodes
WHERE (recovered_at IS NULL AND stopped_at IS NULL AND dead_at IS NULL AND expires_at > ?1) OR (boot_id = ?2 AND pid = ?3) LIMIT 1;

-- The values that the scheduler relies on, before a heartbeat changes them.
-- name: capacity_of_node
SELECT capacity, not_accepting IS NULL AND engine_reachable FROM nodes WHERE id = ?1;

-- ?10 heartbeats that were answered: a row with fewer is that of a backup. ?11 engine impaired, ?12 for how long each step of its dispatch
-- loop has failed, 0 = it does not fail, ?13 the error of the last one, ?14 and ?15 the same of its records
-- name: beat_node
UPDATE nodes SET active_at = ?2, expires_at = ?2 + lease, beats = beats + 1, engine_reachable = ?3, running = ?4, stuck = ?5,
    engine_error = ?6, keeper_pid = ?7, not_accepting = ?8, capacity = ?9,
    engine_unreachable_at = CASE WHEN NOT ?3 THEN coalesce(engine_unreachable_at, ?2) END,
    engine_impaired_at = CASE WHEN ?11 THEN coalesce(engine_impaired_at, ?2) END,
    dispatch_failed_at = CASE WHEN ?12 > 0 THEN coalesce(dispatch_failed_at, ?2 - ?12) END, dispatch_error = ?13,
    record_failed_at = CASE WHEN ?14 > 0 THEN coalesce(record_failed_at, ?2 - ?14) END, record_error = ?15,
    drained_at = CASE WHEN desired_state = 'drain' AND ?4 = 0
                           AND NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = nodes.id)
                      THEN coalesce(drained_at, ?2) END
WHERE id = ?1 AND dead_at IS NULL AND stopped_at IS NULL AND beats >= ?10
RETURNING desired_state, (SELECT queue_paused FROM store_state WHERE id = 1)
             OR coalesce((SELECT g.paused FROM executor_groups g WHERE g.name = nodes.executor_group), 0), beats;

-- ?2 fence, ?3 for how long it is stuck, -1 = it is not, ?4 store time
-- name: mark_stuck
UPDATE workflow_execution_queue SET stuck_at = CASE WHEN ?3 >= 0 THEN ?4 - ?3 END, stuck_fence = CASE WHEN ?3 >= 0 THEN ?2 END
WHERE id = ?1 AND fence = ?2 AND phase = 2;

-- name: stop_node
UPDATE nodes SET stopped_at = ?2, active_at = ?2, expires_at = ?2, graceful = ?3 WHERE id = ?1 AND stopped_at IS NULL AND dead_at IS NULL;

-- name: set_desired_state
UPDATE nodes SET desired_state = ?2, drained_at = CASE WHEN ?2 = 'drain' THEN drained_at END
WHERE (name = ?1 OR CAST(id AS TEXT) = ?1) AND stopped_at IS NULL AND dead_at IS NULL;

-- name: live_node_names
SELECT name FROM nodes WHERE recovered_at IS NULL AND stopped_at IS NULL AND dead_at IS NULL ORDER BY id LIMIT 100;

-- Nodes that missed their lease. ?1 now, ?2 group or NULL, ?3 the boot id of those that are trusted, '' = all, NULL = none.
-- Index: nodes_unrecovered.
-- name: find_dead
UPDATE nodes SET dead_at = ?1, held_at_death = (SELECT count(*) FROM workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = nodes.id)
WHERE recovered_at IS NULL AND expires_at <= ?1 AND dead_at IS NULL AND stopped_at IS NULL AND (?2 IS NULL OR executor_group = ?2)
  AND (?3 IS NULL OR ?3 <> '' AND boot_id <> ?3)
RETURNING name;

-- Live nodes of one machine. ?1 boot id, ?2 not this one, ?3 group or NULL. Index: nodes_unrecovered.
-- name: nodes_of_machine
SELECT id, pid, keeper_pid, life FROM nodes
WHERE recovered_at IS NULL AND dead_at IS NULL AND stopped_at IS NULL AND boot_id = ?1 AND id <> ?2
  AND (?3 IS NULL OR executor_group = ?3);

-- A node without its process.
-- name: mark_gone
UPDATE nodes SET dead_at = ?2, held_at_death = (SELECT count(*) FROM workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = nodes.id)
WHERE id = ?1 AND dead_at IS NULL AND stopped_at IS NULL
RETURNING name;

-- Dead or stopped nodes that may still hold items.
-- name: unrecovered_nodes
SELECT id FROM nodes
WHERE recovered_at IS NULL AND (dead_at IS NOT NULL OR stopped_at IS NOT NULL) AND (?1 IS NULL OR executor_group = ?1)
ORDER BY id LIMIT 100;

-- The fifth column: whether the death of its node is one of its own. The last: whether it was the only item of its node and of
-- the nodes of the machine that the same call found dead. Index: queue_held, all of it.
-- name: items_of_node
SELECT id, fence, handovers_counted, steps_ended,
       NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = node_id AND n.is_outlived), node_id, lane_id, suspicion,
       EXISTS (SELECT 1 FROM nodes n
               WHERE n.id = node_id AND n.held_at_death = 1
                 AND NOT EXISTS (SELECT 1 FROM nodes m WHERE m.dead_at = n.dead_at AND m.boot_id = n.boot_id
                                 AND m.id <> n.id AND m.held_at_death > 0))
FROM workflow_execution_queue WHERE phase = 2 AND node_id = ?1 LIMIT ?2;

-- The safety net: items that are CLAIMED for too long, by ?4 itself or by a dead node; ?4 = 0: by any node.
-- ?1 before when, ?2 limit, ?3 group or NULL. Index: queue_held.
-- name: stale_items
SELECT id, fence, handovers_counted, steps_ended, 0, node_id, lane_id, suspicion, 0 FROM workflow_execution_queue
WHERE phase = 2 AND node_id > 0 AND status = 'CLAIMED' AND claimed_at <= ?1
  AND (?4 = 0 OR node_id = ?4
       OR NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = node_id AND n.dead_at IS NULL AND n.stopped_at IS NULL))
  AND (?3 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?3)) LIMIT ?2;

-- An item of a killed keeper, as in items_of_node. ?1 id, ?2 fence, ?3 whether it is the only one. Index: its id.
-- name: item_of_keeper
SELECT id, fence, handovers_counted, steps_ended, 1, node_id, lane_id, suspicion, ?3
FROM workflow_execution_queue WHERE id = ?1 AND fence = ?2 AND phase = 2;

-- How much of it has ended, and which steps run under the claim ?2. Indexes: the primary keys.
-- name: steps_at_handover
SELECT p.ended, (SELECT substr(group_concat(n.step, ', ') FILTER (WHERE n.status = 'RUNNING' AND n.fence = ?2), 1, 200)
                 FROM workflow_node_executions n WHERE n.execution_id = p.id)
FROM item_progress p WHERE p.id = ?1;

-- The fence grows: later records of the old node change nothing. ?3 hand-overs that count, ?4 steps that have ended, ?5 suspicion,
-- ?6 now when it grew, else 0
-- name: hand_over_item
UPDATE workflow_execution_queue
SET status = 'CLAIMED', node_id = 0, fence = ?2, handovers = handovers + 1, interruptions = interruptions + 1,
    handovers_counted = ?3, steps_ended = ?4, suspicion = ?5, suspected_at = CASE WHEN ?6 > 0 THEN ?6 ELSE suspected_at END
WHERE id = ?1;

-- name: node_recovered
UPDATE nodes SET recovered_at = ?2 WHERE id = ?1 AND recovered_at IS NULL;

-- name: take_lock
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES (?1, ?2 + ?3, ?2, ?4)
ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by
WHERE shedlock.lock_until <= ?2 OR shedlock.locked_by = ?4;

-- name: extend_lock
UPDATE shedlock SET lock_until = ?2 + ?3 WHERE name = ?1 AND locked_by = ?4 AND lock_until > ?2;

-- name: release_lock
UPDATE shedlock SET lock_until = max(?2, locked_at + ?3) WHERE name = ?1 AND locked_by = ?4 AND lock_until > ?2;

-- An operator frees the lock of a holder that is gone.
-- name: free_lock
UPDATE shedlock SET lock_until = ?2 WHERE name = ?1 AND lock_until > ?2;

-- name: lock_is_held
SELECT 1 FROM shedlock WHERE name = ?1 AND lock_until > ?2 AND locked_by <> ?3;

-- The locks of nodes that are found dead now; a node names itself in the holder (lock_request in store.h). ?1 now
-- name: free_locks_of_dead
UPDATE shedlock SET lock_until = ?1
WHERE lock_until > ?1 AND EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.dead_at IS NOT NULL
                                  AND shedlock.locked_by LIKE '%:' || n.id || ':________________');

-- Is there anything that recover would change? ?1 now, ?2 group, ?3 claims older than this are stale.
-- name: needs_recovery
SELECT EXISTS (SELECT 1 FROM nodes WHERE recovered_at IS NULL AND (?2 IS NULL OR executor_group = ?2)
                 AND (dead_at IS NOT NULL OR stopped_at IS NOT NULL
                      OR expires_at <= ?1 AND (?5 IS NULL OR ?5 <> '' AND boot_id <> ?5)))
    OR EXISTS (SELECT 1 FROM workflow_execution_queue WHERE ?3 > 0 AND phase = 2 AND node_id > 0 AND status = 'CLAIMED' AND claimed_at <= ?3
                 AND (?4 = 0 OR node_id = ?4
                      OR NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = node_id AND n.dead_at IS NULL AND n.stopped_at IS NULL))
                 AND (?2 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?2)));

-- A node that stops: never started goes back as it came, running work keeps its slot and is taken over.
-- name: give_back_held
UPDATE workflow_execution_queue SET status = 'CLAIMED', node_id = 0, fence = ?2, interruptions = interruptions + 1 WHERE id = ?1;
