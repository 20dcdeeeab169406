-- The archive (docs/design/archive.md).

-- $1 ended before, $2 behind this id, $3 below this one, $4 at most, $5 rows that are looked at
-- name: archive_items
SELECT a.moved, a.last_id, a.more FROM :schema.archive_items($1, $2, $3, $4, $5) a;

-- $1 an id of the first month to keep
-- name: drop_archive_months
SELECT :schema.drop_archive_months($1);
