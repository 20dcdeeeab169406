-- The events of all executions, those in the archive too. A row of a park is unfolded into the events whose times it has.
CREATE OR REPLACE VIEW :schema.all_events AS
SELECT e.execution_id, e.seq, u.at, u.event, u.node_id, u.fence, u.actor, u.reason, u.detail
FROM (SELECT * FROM :schema.workflow_execution_events UNION ALL SELECT * FROM :schema.archived_events) e
CROSS JOIN LATERAL (
    VALUES (e.at, e.event, e.node_id, e.fence, e.actor, e.reason, e.detail),
           (e.woken_at, 'wake', 0, e.woken_fence, NULL, NULL, NULL),
           (e.claimed_at, 'claim', e.node_id, e.fence, NULL, NULL, NULL),
           (e.dispatched_at, 'dispatch', e.node_id, e.fence, NULL, NULL, NULL)) u (at, event, node_id, fence, actor, reason, detail)
WHERE u.at IS NOT NULL;
