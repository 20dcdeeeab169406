-- The stream (see the tables stream_state and stream_entries).

-- name: stream_is_read
SELECT written_until > ?1 FROM stream_state WHERE id = 1;

-- ?1 time, ?2 kind, ?3 workspace, ?4 execution
-- name: insert_stream_entry
INSERT INTO stream_entries (at, kind, workspace_id, execution_id) VALUES (?1, ?2, ?3, ?4);

-- The same for an item of the queue. ?1 time, ?2 kind, ?3 execution
-- name: insert_stream_entry_of_id
INSERT INTO stream_entries (at, kind, workspace_id, execution_id)
SELECT ?1, ?2, workspace_id, id FROM workflow_execution_queue WHERE id = ?3;

-- The same by the number of the item. ?1 time, ?2 kind, ?3 number
-- name: insert_stream_entry_of_item
INSERT INTO stream_entries (at, kind, workspace_id, execution_id)
SELECT ?1, ?2, workspace_id, id FROM workflow_execution_queue WHERE number = ?3;

-- name: read_stream_state
SELECT written_until, since, purged_to, max(purged_to, (SELECT coalesce(max(position), 0) FROM stream_entries))
FROM stream_state WHERE id = 1;

-- ?1 until, ?2 since
-- name: renew_stream
UPDATE stream_state SET written_until = ?1, since = ?2 WHERE id = 1;

-- Of a copy of the store. The next reader begins the stream anew.
-- name: end_stream
UPDATE stream_state SET written_until = 0 WHERE id = 1;

-- ?1 behind this position, ?2 limit
-- name: read_stream
SELECT e.position, e.at, e.kind, e.execution_id, e.workspace_id, (SELECT w.name FROM workspaces w WHERE w.id = e.workspace_id),
       (SELECT d.name FROM workflow_definitions d
        WHERE d.id = coalesce((SELECT q.definition_id FROM workflow_execution_queue q WHERE q.id = e.execution_id),
                              (SELECT h.definition_id FROM workflow_executions h WHERE h.id = e.execution_id)))
FROM stream_entries e WHERE e.position > ?1 ORDER BY e.position LIMIT ?2;

-- The last one of the oldest ?3 entries that are older than ?1, or not behind position ?2; NULL = there are none
-- name: last_old_stream_entry
SELECT max(o.position) FROM (
    SELECT position FROM (SELECT position, at FROM stream_entries ORDER BY position LIMIT ?3) WHERE at < ?1 OR position <= ?2
) o;

-- name: purge_stream
DELETE FROM stream_entries WHERE position <= ?1;

-- name: note_stream_purge
UPDATE stream_state SET purged_to = max(purged_to, ?1) WHERE id = 1;
