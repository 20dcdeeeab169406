-- Transactions, schema and clock.

-- name: begin_immediate
BEGIN IMMEDIATE;

-- name: begin_read
BEGIN;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: read_clock
SELECT boot_id, clock_offset, clock_high FROM store_state WHERE id = 1;

-- After a boot (?1 is the boot's id): the first process sets the clock; later ones find it set.
-- name: set_clock
UPDATE store_state SET boot_id = ?1, clock_offset = ?2, clock_high = max(clock_high, ?3), wall_offset = ?4
WHERE id = 1 AND boot_id <> ?1;

-- A node that starts while no other lives takes the wall clock again.
-- name: force_clock
UPDATE store_state SET boot_id = ?1, clock_offset = ?2, clock_high = max(clock_high, ?3), wall_offset = ?4 WHERE id = 1;

-- name: raise_clock
UPDATE store_state SET clock_high = max(clock_high, ?1), wall_offset = ?2 WHERE id = 1;

-- The next fence; every caller takes one per batch.
-- name: next_fence
UPDATE store_state SET fence = fence + 1 WHERE id = 1 RETURNING fence;

-- Changes whenever another connection has committed.
-- name: data_version
PRAGMA data_version;

-- Changes with the schema, and when a backup is loaded into the open file.
-- name: schema_cookie
PRAGMA schema_version;

-- name: read_schema_version
PRAGMA user_version;

-- The checksum of the views in this file.
-- name: read_views
SELECT views FROM store_state WHERE id = 1;

-- name: note_views
UPDATE store_state SET views = ?1 WHERE id = 1;

-- name: page_size
PRAGMA page_size;
