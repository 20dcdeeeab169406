-- Whether this node schedules under this epoch. With `locks` the answer holds until the end of the transaction: a takeover waits.
-- Every renewal makes a version of the row. The newest one is found from the end of its index, however many dead ones an open
-- transaction keeps; an equality would let the planner drop the order.
-- Locks: with `locks` the row of scheduler FOR SHARE. Callers: schedule(), publish_books().
CREATE OR REPLACE FUNCTION :schema.has_epoch(own_node bigint, own_epoch bigint, locks boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF locks THEN
        PERFORM 1 FROM :schema.scheduler s
        WHERE s.partition BETWEEN 0 AND 0 AND s.epoch = own_epoch AND s.node_id = own_node
        ORDER BY s.partition DESC LIMIT 1 FOR SHARE;
    ELSE
        PERFORM 1 FROM :schema.scheduler s
        WHERE s.partition BETWEEN 0 AND 0 AND s.epoch = own_epoch AND s.node_id = own_node
        ORDER BY s.partition DESC LIMIT 1;
    END IF;
    RETURN FOUND;
END
$$;
