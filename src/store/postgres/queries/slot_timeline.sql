-- The timeline of a workspace's slots (store/slot_timeline.h).

-- Those that hold a slot. $1 workspace, $2 limit. Each row of a claim set is read by its id: OFFSET 0 keeps the server from a join that
-- walks along the queue, with all that wait there. As in held_items, a claim counts for its own node and fence.
-- name: slot_timeline_held
SELECT h.id
FROM :schema.claims c CROSS JOIN LATERAL unnest(c.ids) i (id)
CROSS JOIN LATERAL (SELECT q.id FROM :schema.workflow_execution_queue q
                    WHERE q.id = i.id AND q.fence = c.fence AND q.node_id = c.node_id AND q.phase = 2
                      AND q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $1) OFFSET 0) h
ORDER BY h.id DESC LIMIT $2;

-- Those that were claimed once and hold no slot, and those that ended. $1 ids below, $2 ids from, $3 workspace, $4 limit of the former,
-- $5 limit of the latter, $6 finished since.
-- name: slot_timeline_window
(SELECT q.id, false AS has_ended FROM :schema.workflow_execution_queue q
 WHERE q.id < $1 AND q.id >= $2 AND q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $3) AND q.phase <> 2
   AND q.starts_refused + q.deferrals + q.interruptions > 0
 ORDER BY q.id DESC LIMIT $4)
UNION ALL
(SELECT h.id, true FROM :schema.workflow_executions h
 WHERE h.id < $1 AND h.id >= $2 AND h.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $3) AND h.finished_at >= $6
   AND (h.claimed_at IS NOT NULL OR h.starts_refused + h.deferrals + h.interruptions > 0)
 ORDER BY h.id DESC LIMIT $5);

-- The last moves of each of $1, oldest first, in the order of execution_events: a claim is written behind the move that ends it. An act
-- of a person is none, though its event has the name of one. $2 events, $3 moves.
-- name: slot_moves
SELECT i.place - 1, m.at, m.event
FROM unnest($1::uuid[]) WITH ORDINALITY i (id, place)
CROSS JOIN LATERAL (
    SELECT e.seq, e.at, e.event, e.fence
    FROM (SELECT v.seq, v.at, v.event, v.fence, v.actor FROM :schema.all_events v
          WHERE v.execution_id = i.id ORDER BY v.seq DESC LIMIT $2) e
    WHERE e.actor IS NULL AND e.event IN ('claim', 'retry', 'defer', 'put_back', 'park')
    ORDER BY e.at DESC, e.fence DESC, e.event = 'claim', e.seq DESC LIMIT $3) m
ORDER BY i.place, m.at, m.fence, m.event <> 'claim', m.seq;
