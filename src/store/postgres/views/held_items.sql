-- The items that nodes hold, CLAIMED or DISPATCHED, found by their claim sets. claim_node and claim_fence are node
-- and fence of the set and of the item; a condition on them uses the index of `claims`. claim_node 0: handed over. last_id: the highest id
-- of the set.
CREATE OR REPLACE VIEW :schema.held_items AS
SELECT c.node_id AS claim_node, c.fence AS claim_fence, c.ids[c.size] AS last_id, q.*
FROM :schema.claims c CROSS JOIN LATERAL unnest(c.ids) i (id) JOIN :schema.workflow_execution_queue q ON q.id = i.id
WHERE q.fence = c.fence AND q.node_id = c.node_id AND q.phase = 2;
