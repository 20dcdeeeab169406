-- Which hand-overs count towards poison: those under which a step ran, since a step of it last ended.
ALTER TABLE workflow_execution_queue ADD COLUMN handovers_counted INTEGER NOT NULL DEFAULT 0;
-- How many of its steps had ended at its last hand-over.
ALTER TABLE workflow_execution_queue ADD COLUMN steps_ended INTEGER NOT NULL DEFAULT 0;
-- What such a node runs lives on without it, so that its death says nothing of what it held.
ALTER TABLE nodes ADD COLUMN is_outlived INTEGER NOT NULL DEFAULT 0;
UPDATE nodes SET is_outlived = 1 WHERE engine = 'temporal';
