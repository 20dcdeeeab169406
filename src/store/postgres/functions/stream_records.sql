-- Adds the records of a set that took effect to the stream, but not those of kind 0, which record() adds, and not handovers, which
-- hand_over() adds. A put-back or park of an item with a requested cancel has ended it.
--   done              the places of the records that took effect
--   started           of these the ends whose start was not on record; NULL = none
--   ids ... codes     the arguments of record()
-- Locks: none but its own rows. Caller: record(), while the stream is read.
CREATE OR REPLACE FUNCTION :schema.stream_records(now_us bigint, done integer[], started integer[], ids uuid[], kinds integer[],
                                                  codes text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    changes text[];
    changed uuid[];
BEGIN
    IF started IS NOT NULL THEN
        PERFORM :schema.write_stream(now_us, '{dispatch}', ARRAY(SELECT ids[d] FROM unnest(started) d ORDER BY d));
    END IF;
    SELECT array_agg(c.change ORDER BY c.place), array_agg(ids[c.place] ORDER BY c.place) INTO changes, changed
    FROM (SELECT d AS place,
                 CASE WHEN kinds[d] IN (4, 6, 7, 8) THEN 'end'
                      WHEN kinds[d] = 9 AND (codes[d] IN ('keeper_lost', 'keeper_lost_alone')) IS NOT TRUE THEN 'give_back'
                      WHEN kinds[d] IN (1, 2, 3, 10) AND EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = ids[d]) THEN 'end'
                      WHEN kinds[d] IN (1, 2, 3) THEN (ARRAY['retry', 'defer', 'put_back'])[kinds[d]]
                      WHEN kinds[d] = 10 THEN 'park' END AS change
          FROM unnest(done) d) c
    WHERE c.change IS NOT NULL;
    PERFORM :schema.write_stream(now_us, changes, changed);
END
$$;
