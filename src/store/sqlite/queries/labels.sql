-- Labels and business keys. A row of the empty name is a business key.

-- ?3 the labels as a JSON object.
-- name: insert_labels
INSERT INTO execution_labels (execution_id, name, value, workspace_id) SELECT ?1, e.key, e.value, ?2 FROM json_each(?3) e;

-- name: insert_business_key
INSERT INTO execution_labels (execution_id, name, value, workspace_id) VALUES (?1, '', ?3, ?2);

-- Those of the definition ?3 of which the request has no label of the same name.
-- name: insert_definition_labels
INSERT OR IGNORE INTO execution_labels (execution_id, name, value, workspace_id)
SELECT ?1, e.key, e.value, ?2 FROM workflow_definitions d, json_each(d.labels) e WHERE d.id = ?3;

-- A retry ?2 has those of the execution ?1.
-- name: copy_labels
INSERT INTO execution_labels (execution_id, name, value, workspace_id)
SELECT ?2, l.name, l.value, l.workspace_id FROM execution_labels l WHERE l.execution_id = ?1;

-- name: purge_labels
DELETE FROM execution_labels WHERE execution_id = ?1;

-- The executions of a filter in the order of their ids (label_walk.c). ?1 workspace, 0 = all, ?2 name, ?3 and ?4 from and up to which
-- value, ?5 and ?6 from and below which id, ?7 limit.

-- One value in one workspace. Index: labels_by_value, in its order.
-- name: labelled_ids_descending
SELECT execution_id FROM execution_labels
WHERE workspace_id = ?1 AND name = ?2 AND value = ?3 AND ?4 = ?3 AND execution_id >= ?5 AND execution_id < ?6
ORDER BY execution_id DESC LIMIT ?7;

-- name: labelled_ids_ascending
SELECT execution_id FROM execution_labels
WHERE workspace_id = ?1 AND name = ?2 AND value = ?3 AND ?4 = ?3 AND execution_id >= ?5 AND execution_id < ?6
ORDER BY execution_id LIMIT ?7;

-- Several values, or all workspaces: the entries of the index that match are sorted. They are few.
-- name: labelled_few_descending
SELECT execution_id FROM execution_labels INDEXED BY labels_by_value
WHERE workspace_id IN (SELECT id FROM workspaces WHERE id = ?1 UNION ALL SELECT id FROM workspaces WHERE ?1 = 0
                       UNION ALL SELECT id FROM deleted_workspaces WHERE ?1 = 0)
  AND name = ?2 AND value >= ?3 AND value <= ?4 AND execution_id >= ?5 AND execution_id < ?6
ORDER BY execution_id DESC LIMIT ?7;

-- name: labelled_few_ascending
SELECT execution_id FROM execution_labels INDEXED BY labels_by_value
WHERE workspace_id IN (SELECT id FROM workspaces WHERE id = ?1 UNION ALL SELECT id FROM workspaces WHERE ?1 = 0
                       UNION ALL SELECT id FROM deleted_workspaces WHERE ?1 = 0)
  AND name = ?2 AND value >= ?3 AND value <= ?4 AND execution_id >= ?5 AND execution_id < ?6
ORDER BY execution_id LIMIT ?7;

-- The same along the primary key, for which a window has been found.
-- name: labelled_all_descending
SELECT execution_id FROM execution_labels
WHERE execution_id >= ?5 AND execution_id < ?6 AND +name = ?2 AND +value >= ?3 AND +value <= ?4 AND (?1 = 0 OR +workspace_id = ?1)
  AND ?7 IS NOT NULL
ORDER BY execution_id DESC;

-- name: labelled_all_ascending
SELECT execution_id FROM execution_labels
WHERE execution_id >= ?5 AND execution_id < ?6 AND +name = ?2 AND +value >= ?3 AND +value <= ?4 AND (?1 = 0 OR +workspace_id = ?1)
  AND ?7 IS NOT NULL
ORDER BY execution_id;

-- The last of the ?3 entries from ?1 on and below ?2. No row: there are no more than that.
-- name: label_window_descending
SELECT execution_id FROM execution_labels
WHERE execution_id >= ?1 AND execution_id < ?2
ORDER BY execution_id DESC LIMIT 1 OFFSET ?3 - 1;

-- name: label_window_ascending
SELECT execution_id FROM execution_labels
WHERE execution_id >= ?1 AND execution_id < ?2
ORDER BY execution_id LIMIT 1 OFFSET ?3 - 1;

-- How many entries match, up to ?5; as many as that also where the workspaces alone are more than ?6.
-- name: count_labelled
SELECT CASE WHEN ?1 = 0 AND ?6 = (SELECT count(*) FROM (SELECT 1 FROM workspaces UNION ALL SELECT 1 FROM deleted_workspaces LIMIT ?6))
            THEN ?5
            ELSE (SELECT count(*) FROM (SELECT 1 FROM execution_labels INDEXED BY labels_by_value
                                        WHERE workspace_id IN (SELECT id FROM workspaces WHERE id = ?1
                                                               UNION ALL SELECT id FROM workspaces WHERE ?1 = 0
                                                               UNION ALL SELECT id FROM deleted_workspaces WHERE ?1 = 0)
                                          AND name = ?2 AND value >= ?3 AND value <= ?4 LIMIT ?5)) END;

-- name: first_live_id
SELECT id FROM workflow_execution_queue WHERE id > '' ORDER BY id LIMIT 1;

-- name: has_label
SELECT 1 FROM execution_labels WHERE execution_id = ?1 AND name = ?2 AND value >= ?3 AND value <= ?4;
