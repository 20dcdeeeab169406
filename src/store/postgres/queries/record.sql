-- Record: what engines reported, one function per set (migrations/0002). Arrays sorted by id.

-- name: record_set
SELECT r.place, r.outcome, r.slots_freed
FROM :schema.record($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) r;
