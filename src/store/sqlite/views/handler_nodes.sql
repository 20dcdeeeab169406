-- The nodes that have, or had, all handlers of a definition. had_at: until when, which is the loss of the first of them or else the last
-- heartbeat.
DROP VIEW IF EXISTS handler_nodes;
CREATE VIEW handler_nodes AS
SELECT d.id AS definition_id, n.id AS node_id, n.executor_group,
       coalesce((SELECT min(l.value) FROM json_each(d.handlers) h JOIN json_each(n.handlers_left) l ON l.key = h.value),
                n.active_at) AS had_at
FROM workflow_definitions d CROSS JOIN nodes n
WHERE NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                  WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o
                                        UNION ALL SELECT l.key FROM json_each(n.handlers_left) l));
