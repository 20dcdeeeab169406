-- What a node's engine said last while it could not be reached; NULL while it can be.
ALTER TABLE nodes ADD COLUMN engine_error TEXT;
