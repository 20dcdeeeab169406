-- Record: what engines reported, one function per set (migrations/0002). Arrays sorted by id.

-- Who told an end that took effect, in the same transaction.
-- name: note_teller
INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, actor, reason, detail)
VALUES ($1, (SELECT :schema.store_time()), 'tell_end', $2, $3, $4, $5, $6);

-- A set whose story is more than its rows can tell (migrations/0016).
-- name: record_story
SELECT r.place, r.outcome, r.slots_freed
FROM :schema.record_story($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
                          $24, $25, $26, $27, $28) r;

-- name: record_set
SELECT r.place, r.outcome, r.slots_freed
FROM :schema.record($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) r;

-- The records of a set that must wait for somebody else (migrations/0025). $1 items, $2 whether each gives its slot back
-- name: held_by_others
SELECT h.place FROM :schema.held_by_others($1, $2) h (place);
