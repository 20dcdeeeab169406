-- Record: the reports of engines, one function call for each set. Arrays sorted by id.

-- The event of an end that its worker reported and that took effect, in the same transaction.
-- name: note_reporter
WITH event AS (
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, actor, reason, detail)
    VALUES ($1, (SELECT :schema.store_time()), 'report_end', $2, $3, $4, $5, $6)
)
SELECT :schema.record_act($4, $7, 'complete', $1::text, NULL, jsonb_build_object('status', $6), 1);

-- name: record_set
SELECT r.place, r.outcome, r.slots_freed
FROM :schema.record($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
                    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39) r;

-- A set with more to store than its rows can hold.
-- name: record_events
SELECT r.place, r.outcome, r.slots_freed
FROM :schema.record_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
                          $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45,
                          $46, $47) r;

-- The places of the records with an item that another transaction has locked. $1 items
-- name: held_by_others
SELECT h.place FROM :schema.held_by_others($1) h (place);
