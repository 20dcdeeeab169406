-- The first heads of the lanes of which single enqueues were read, from the rank of the new item on.
-- Locks: none. Caller: schedule().
CREATE OR REPLACE FUNCTION :schema.news_heads(entries :schema.news[])
RETURNS TABLE (lane bigint, after_rank bigint, slots_max bigint, weight bigint, is_paused boolean, rank_list bigint[], id_list uuid[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    most constant integer := 4;
    lanes bigint[];
    ranks bigint[];
BEGIN
    SELECT array_agg(n.lanes[1]), array_agg(n.least_rank[1]) INTO lanes, ranks
    FROM unnest(entries) n WHERE n.kind = 1 AND cardinality(n.lanes) = 1 AND n.least_rank[1] IS NOT NULL;
    IF cardinality(lanes) > 0 THEN
        RETURN QUERY
        SELECT lanes[h.place], ranks[h.place], h.slots_max, h.weight, h.is_paused, h.rank_list, h.id_list
        FROM :schema.schedule_heads(lanes, ranks, array_fill('00000000-0000-0000-0000-000000000000'::uuid, ARRAY[cardinality(lanes)]),
                                    array_fill(most, ARRAY[cardinality(lanes)])) h;
    END IF;
END
$$;
