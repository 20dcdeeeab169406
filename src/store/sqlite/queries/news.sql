-- The news and the books (see the tables of these names).

-- name: insert_news
INSERT INTO news (kind, node_id, at, lanes, due, workspaces) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- In the order of the commits, because a transaction that writes has the file for itself. ?1 position, ?2 limit
-- name: read_news
SELECT seq, kind, node_id, lanes, due, workspaces FROM news WHERE seq > ?1 ORDER BY seq LIMIT ?2;

-- Whether an act lies behind the position. Index: news_acts.
-- name: unread_act
SELECT EXISTS (SELECT 1 FROM news WHERE kind = 7 AND seq > ?1);

-- name: last_news
SELECT coalesce(max(seq), 0) FROM news;

-- ?1 up to which one, ?2 limit
-- name: news_to_move
SELECT seq, lanes FROM news WHERE seq <= ?1 ORDER BY seq LIMIT ?2;

-- name: delete_news
DELETE FROM news WHERE seq <= ?1;

-- name: news_is_left
SELECT EXISTS (SELECT 1 FROM news WHERE seq <= ?1);

-- The table lane_counters adds these two (lane_counters.h). ?1 lane, or NULL = all
-- name: read_books
SELECT lane_id, runnable, waiting, held, completed, failed, cancelled, parked FROM books
WHERE lane_id BETWEEN coalesce(?1, 0) AND coalesce(?1, 9223372036854775807);

-- name: all_news
SELECT lanes FROM news;

-- The entries that assignments have left at the head of a lane, up to its first runnable item. One behind such an item stays until that
-- one has left; a reader skips it. ?1 lane
-- name: forget_assigned
DELETE FROM queue_runnable
WHERE lane_id = ?1
  AND (rank, number) < (SELECT coalesce(max(f.rank), 9223372036854775807), coalesce(max(f.number), 9223372036854775807)
                        FROM (SELECT i.rank, i.number FROM runnable_items i WHERE i.lane_id = ?1 ORDER BY i.rank, i.number LIMIT 1) f);

-- ?1 lane, ?2 runnable, ?3 waiting, ?4 held, ?5 completed, ?6 failed, ?7 cancelled, ?8 parked
-- name: add_to_books
INSERT INTO books (lane_id, workspace_id, group_id, runnable, waiting, held, completed, failed, cancelled, parked)
VALUES (?1, ?1 & 2147483647, ?1 >> 47, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (lane_id) DO UPDATE
SET runnable = runnable + ?2, waiting = waiting + ?3, held = held + ?4, completed = completed + ?5, failed = failed + ?6,
    cancelled = cancelled + ?7, parked = parked + ?8;

-- name: set_pass
INSERT INTO books (lane_id, workspace_id, group_id, pass) VALUES (?1, ?1 & 2147483647, ?1 >> 47, ?2)
ON CONFLICT (lane_id) DO UPDATE SET pass = ?2;

-- The columns of the virtual table lane_counters (lane_counters.c).
-- name: declare_lane_counters
CREATE TABLE lane_counters (lane_id INTEGER, workspace_id INTEGER, group_id INTEGER, runnable INTEGER, waiting INTEGER,
                            held INTEGER, completed INTEGER, failed INTEGER, cancelled INTEGER, parked INTEGER);
