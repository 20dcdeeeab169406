-- The history (the table history has at most a few hundred rows).

-- The first row has the sums, the others the busy workspaces. $1 limit
-- name: sample_history
WITH b AS MATERIALIZED (SELECT * FROM :schema.workspace_books),
busy AS (
    SELECT w.id::bigint AS id, b.held, w.slots_max::bigint AS slots_max, b.runnable + b.waiting AS pending
    FROM b JOIN :schema.workspaces w ON w.id = b.workspace_id
    WHERE b.held > 0 OR b.runnable + b.waiting > 0 ORDER BY w.id LIMIT $1
)
SELECT 0::bigint AS id, coalesce(sum(b.completed), 0)::bigint, coalesce(sum(b.failed), 0)::bigint, coalesce(sum(b.cancelled), 0)::bigint,
       :schema.store_time()
FROM b
UNION ALL
SELECT y.id, y.held, y.slots_max, y.pending, 0 FROM busy y
ORDER BY 1;

-- A row that is there already stays. Locks: the rows that it removes, for the length of the statement. $1 end, $2 length, $3 folded,
-- $4 facts, $5 the parts of a sum lie behind this time, $6 how long rows are kept, $7 how far they may be ahead, $8 how many stay
-- name: write_history
WITH old AS (
    DELETE FROM :schema.history h
    WHERE h.at < :schema.store_time() - $6 OR h.at > :schema.store_time() + $7 OR ($3 AND NOT h.folded AND h.at > $5 AND h.at <= $1)
       OR h.at < (SELECT k.at FROM :schema.history k ORDER BY k.at DESC LIMIT 1 OFFSET $8 - 2)
)
INSERT INTO :schema.history (folded, at, span, facts) VALUES ($3, $1, $2, $4) ON CONFLICT DO NOTHING;

-- $1 behind this time, $2 up to this one, $3 without sums, $4 limit
-- name: read_history
SELECT h.at, h.span, h.folded, h.facts FROM :schema.history h
WHERE h.at > $1 AND h.at <= $2 AND NOT (h.folded AND $3) ORDER BY h.at, h.folded LIMIT $4;

-- name: workspace_of_history
SELECT w.id FROM :schema.workspaces w WHERE w.name = $1;
