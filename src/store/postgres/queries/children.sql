-- Children of executions (store/children.h).

-- Whether any step has children, and whether notes of them wait.
-- name: child_notes_wait
SELECT EXISTS (SELECT 1 FROM :schema.child_steps), EXISTS (SELECT 1 FROM :schema.child_notes);

-- $1 notes, $2 ends, $3 starts, and cancels, at most
-- name: advance_children
SELECT a.started, a.cancelled, a.settled, a.again, a.waits, a.faults, coalesce(a.fault, '') FROM :schema.advance_children($1, $2, $3) a;

-- The children of each step by their ends, for people. adopted: those that were there before, and have the key. $1 parent
-- Index: children_adopted.
-- name: read_child_rows
SELECT s.step, s.workflow, s.count, s.started - s.ended AS open, s.count - s.started AS not_started, s.completed,
       s.ended - s.completed AS not_completed,
       (SELECT count(*) FROM :schema.children c WHERE c.parent_id = s.parent_id AND c.step = s.step AND c.is_adopted) AS adopted, s.leaves
FROM :schema.child_steps s WHERE s.parent_id = $1 AND s.count IS NOT NULL ORDER BY s.step;

-- The parent that has started the child $1, at most one. Index: children_by_id.
-- name: read_parent_rows
SELECT c.parent_id AS id, c.step, c.position AS index FROM :schema.children c WHERE c.child_id = $1 AND NOT c.is_adopted;
