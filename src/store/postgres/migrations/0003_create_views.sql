-- The two views that people may query: one row per execution, live or ended; and the story of each.
-- execution_id is the id again once the item was claimed (one id on every surface); engines know it as execution-<id>.
-- pending_reason is worked out here as in queue/item.h, in store time, never by the reader's clock.
-- A view reads with its owner's rights: whoever may read it needs no right on the tables.

-- Exact over the whole range of bigint, which arithmetic on one interval or on seconds as a double is not. STABLE, although they
-- never change, so that they are expanded where they are called.
CREATE FUNCTION :schema.time_of(microseconds bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT timestamptz 'epoch' + make_interval(secs => (microseconds / 1000000)::double precision)
     + (microseconds % 1000000) * interval '1 microsecond'
$$;

CREATE FUNCTION :schema.microseconds_of(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT extract(epoch FROM date_trunc('second', at, 'UTC'))::bigint * 1000000 + extract(microseconds FROM at)::bigint % 1000000
$$;

-- Times as every JSON answer of weir spells them.
CREATE FUNCTION :schema.rfc3339(at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

CREATE FUNCTION :schema.rfc3339(microseconds bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT :schema.rfc3339(:schema.time_of(microseconds))
$$;

-- What holds back the runnable items of a lane: the reasons that are the lane's own. alive, reachable: whether a live node
-- serves the group, and whether one of them reaches its engine.
CREATE FUNCTION :schema.lane_reason(workspace_paused boolean, queue_paused boolean, alive boolean, reachable boolean, full_up boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN workspace_paused THEN 'workspace_paused' WHEN queue_paused THEN 'queue_paused'
            WHEN NOT alive THEN 'no_node_in_group' WHEN NOT reachable THEN 'engine_unreachable'
            WHEN full_up THEN 'workspace_at_capacity' ELSE 'ready' END
$$;

-- Groups with a live node.
CREATE VIEW :schema.served_groups AS
SELECT n.executor_group, bool_or(n.engine_reachable) AS engine_reachable
FROM :schema.nodes n
WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
GROUP BY n.executor_group;

-- What waits in each lane: what claims have folded and what they have not seen yet.
CREATE VIEW :schema.lane_books AS
SELECT b.lane_id, (b.lane_id >> 32)::integer AS group_id, (b.lane_id & 4294967295)::integer AS workspace_id,
       sum(b.runnable)::bigint AS runnable, sum(b.waiting)::bigint AS waiting
FROM (SELECT id AS lane_id, runnable, waiting FROM :schema.lanes
      UNION ALL SELECT lane_id, runnable, waiting FROM :schema.lane_wakeups) b
GROUP BY b.lane_id;

CREATE VIEW :schema.executions AS
SELECT q.id AS id, w.name AS workspace, d.name AS workflow, d.version AS version, q.status AS status,
       CASE
           WHEN q.phase = 2 AND q.node_id <> 0 THEN NULL
           WHEN q.phase = 2 THEN 'handed_over'
           WHEN q.phase = 1 AND q.due_at > q.run_at THEN 'backing_off'
           WHEN q.phase = 1 THEN 'scheduled'
           ELSE :schema.lane_reason(w.paused, s.queue_paused OR g.paused, a.executor_group IS NOT NULL, a.engine_reachable,
                                    w.slots_used >= w.slots_max)
       END AS pending_reason,
       q.priority::integer AS priority, :schema.time_of(q.run_at) AS run_at,
       q.attempts AS attempts, q.deferrals AS deferrals, q.handovers AS handovers,
       CASE WHEN q.fence > 0 THEN q.id END AS execution_id,
       (SELECT n.name FROM :schema.nodes n WHERE n.id = q.node_id) AS node,
       q.fence AS fence, q.error_code AS error_code, q.error AS error,
       :schema.time_of(q.created_at) AS created_at, :schema.time_of(q.claimed_at) AS claimed_at,
       :schema.time_of(q.dispatched_at) AS dispatched_at, NULL::timestamptz AS finished_at,
       g.name AS executor_group, q.idempotency_key AS idempotency_key, q.retry_of AS retry_of
FROM :schema.workflow_execution_queue q
CROSS JOIN :schema.store_state s
JOIN :schema.workspaces w ON w.id = q.workspace_id
JOIN :schema.workflow_definitions d ON d.id = q.definition_id
JOIN :schema.executor_groups g ON g.id = (q.lane_id >> 32)::integer
LEFT JOIN :schema.served_groups a ON a.executor_group = g.name
UNION ALL
SELECT h.id, w.name, d.name, d.version, h.status, NULL, h.priority::integer, :schema.time_of(h.run_at),
       h.attempts, h.deferrals, h.handovers, CASE WHEN h.fence > 0 THEN h.id END,
       (SELECT n.name FROM :schema.nodes n WHERE n.id = h.node_id), h.fence, h.error_code, h.error,
       :schema.time_of(h.created_at), :schema.time_of(h.claimed_at), :schema.time_of(h.dispatched_at), :schema.time_of(h.finished_at),
       g.name, h.idempotency_key, h.retry_of
FROM :schema.workflow_executions h
JOIN :schema.workspaces w ON w.id = h.workspace_id
JOIN :schema.workflow_definitions d ON d.id = h.definition_id
JOIN :schema.executor_groups g ON g.id = (h.lane_id >> 32)::integer;

-- stage orders what has the same time stamp: the enqueue, what events tell, claim, dispatch, steps, the end.
CREATE VIEW :schema.execution_events AS
SELECT e.execution_id AS execution_id, :schema.time_of(e.at) AS at, e.event AS event,
       (SELECT n.name FROM :schema.nodes n WHERE n.id = e.node_id) AS node,
       nullif(e.fence, 0) AS fence, e.actor AS actor, e.reason AS reason, e.detail AS detail
FROM (
    SELECT id AS execution_id, created_at AS at, 'enqueue' AS event, 0::bigint AS node_id, 0::bigint AS fence, NULL::text AS actor,
           NULL::text AS reason, NULL::text AS detail, 0 AS stage, 0::bigint AS seq FROM :schema.workflow_execution_queue
    UNION ALL
    SELECT id, created_at, 'enqueue', 0, 0, NULL, NULL, NULL, 0, 0 FROM :schema.workflow_executions
    UNION ALL
    SELECT execution_id, at, event, node_id, fence, actor, reason, detail, 1, seq FROM :schema.workflow_execution_events
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, 2, 0 FROM :schema.workflow_execution_queue
    WHERE claimed_at IS NOT NULL
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, 2, 0 FROM :schema.workflow_executions
    WHERE claimed_at IS NOT NULL
    UNION ALL
    SELECT id, dispatched_at, 'dispatch', node_id, fence, NULL, NULL, NULL, 3, 0 FROM :schema.workflow_execution_queue
    WHERE dispatched_at IS NOT NULL
    UNION ALL
    SELECT id, dispatched_at, 'dispatch', node_id, fence, NULL, NULL, NULL, 3, 0 FROM :schema.workflow_executions
    WHERE dispatched_at IS NOT NULL
    UNION ALL
    SELECT execution_id, started_at, 'step_start', node_id, fence, NULL, step, NULL, 4, 0 FROM :schema.workflow_node_executions
    UNION ALL
    SELECT execution_id, finished_at, 'step_end', node_id, fence, NULL, step, status, 5, 0 FROM :schema.workflow_node_executions
    WHERE finished_at IS NOT NULL
    UNION ALL
    SELECT id, finished_at,
           CASE status WHEN 'COMPLETED' THEN 'complete' WHEN 'FAILED' THEN 'fail' ELSE 'cancelled' END,
           node_id, fence, NULL, error_code, error, 6, 0 FROM :schema.workflow_executions
) e
ORDER BY e.execution_id, e.at, e.stage, e.seq;

-- Which executions a list is about: their ids, newest first, one arm for the living and one for the ended, each along its primary
-- key. NULL or the bounds of bigint = no condition. Not for callers; its parameters are those of page_of_executions (queries/read.sql).
CREATE FUNCTION :schema.choose_executions(below uuid, first uuid, last uuid, workspace text, states integer, workflow text,
                                          executor_group text, error_code text, idempotency_key text, created_since bigint,
                                          created_before bigint, finished_before bigint, most bigint) RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$
    SELECT i.id FROM (
        (SELECT q.id FROM :schema.workflow_execution_queue q
         WHERE q.id < $1 AND q.id >= $2 AND q.id <= $3
           AND ($4 IS NULL OR q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $4))
           AND (CASE q.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 ELSE 4 END) & $5 <> 0
           AND ($6 IS NULL OR q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $6))
           AND ($7 IS NULL OR q.lane_id >> 32 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $7))
           AND ($8 IS NULL OR q.error_code = $8) AND ($9 IS NULL OR q.idempotency_key = $9)
           AND q.created_at >= $10 AND q.created_at < $11 AND $12 = 9223372036854775807
         ORDER BY q.id DESC LIMIT $13)
        UNION ALL
        (SELECT h.id FROM :schema.workflow_executions h
         WHERE h.id < $1 AND h.id >= $2 AND h.id <= $3
           AND ($4 IS NULL OR h.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $4))
           AND (CASE h.status WHEN 'COMPLETED' THEN 8 WHEN 'FAILED' THEN 16 ELSE 32 END) & $5 <> 0
           AND ($6 IS NULL OR h.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $6))
           AND ($7 IS NULL OR h.lane_id >> 32 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $7))
           AND ($8 IS NULL OR h.error_code = $8) AND ($9 IS NULL OR h.idempotency_key = $9)
           AND h.created_at >= $10 AND h.created_at < $11 AND h.finished_at < $12
         ORDER BY h.id DESC LIMIT $13)) i
    ORDER BY i.id DESC LIMIT $13
$$;
