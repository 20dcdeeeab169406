-- Since when a node does not reach its engine, by the first of its heartbeats that said so; NULL while it does.
ALTER TABLE nodes ADD COLUMN engine_unreachable_at INTEGER;
