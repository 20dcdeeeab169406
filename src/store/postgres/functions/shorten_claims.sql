-- Shortens old claim sets with few items that are still held. The ids of the ended ones are removed, so that a takeover or a recovery does
-- not search for them. A set is shortened by at least three quarters, so the work for each item is small even if the last items of its set
-- run for long.
-- Locks: the rows, which only the scheduler changes. Caller: publish_books(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.shorten_claims(now_us bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    age_us constant bigint := 60000000;
    sets_most constant integer := 20;
BEGIN
    UPDATE :schema.claims c
    SET at = now_us, size = c.held,
        ids = ARRAY(SELECT i.id FROM unnest(c.ids) i (id) JOIN :schema.workflow_execution_queue q ON q.id = i.id
                    WHERE q.fence = c.fence AND q.node_id = c.node_id AND q.phase = 2 ORDER BY i.id)
    WHERE (c.node_id, c.fence) IN (SELECT o.node_id, o.fence FROM :schema.claims o
                                   WHERE o.held * 4 < o.size AND o.at < now_us - age_us LIMIT sets_most);
END
$$;
