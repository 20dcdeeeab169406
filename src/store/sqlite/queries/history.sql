-- The history (see the table history). It has at most a few hundred rows.

-- name: sample_history_totals
SELECT coalesce(sum(completed), 0), coalesce(sum(failed), 0), coalesce(sum(cancelled), 0) FROM lane_counters;

-- ?1 limit
-- name: sample_history_workspaces
WITH c AS MATERIALIZED (
    SELECT workspace_id, sum(held) AS held, sum(runnable + waiting) AS pending
    FROM lane_counters WHERE held > 0 OR runnable + waiting > 0 GROUP BY workspace_id
)
SELECT w.id, c.held, w.slots_max, c.pending FROM c CROSS JOIN workspaces w ON w.id = c.workspace_id ORDER BY w.id LIMIT ?1;

-- ?1 end, ?2 length, ?3 folded, ?4 facts
-- name: insert_history
INSERT INTO history (folded, at, span, facts) VALUES (?3, ?1, ?2, ?4) ON CONFLICT DO NOTHING;

-- The parts of a sum. ?1 behind this time, ?2 up to this one
-- name: delete_folded_history
DELETE FROM history WHERE folded = 0 AND at > ?1 AND at <= ?2;

-- ?1 before this time, ?2 behind this one, ?3 how many stay
-- name: purge_history
DELETE FROM history WHERE at < ?1 OR at > ?2
   OR at < (SELECT at FROM history ORDER BY at DESC LIMIT 1 OFFSET ?3 - 1);

-- ?1 behind this time, ?2 up to this one, ?3 without sums, ?4 limit
-- name: read_history
SELECT at, span, folded, facts FROM history WHERE at > ?1 AND at <= ?2 AND (folded = 0 OR ?3 = 0) ORDER BY at, folded LIMIT ?4;
