-- The state that the news of a round has changed, as bits of enum schedule_need. 1: the queue, the groups and the nodes (kinds 7 and 8). 2:
-- the items that were handed over (kind 5). In plpgsql for the reason of requests_wait().
-- Locks: none. Caller: schedule().
CREATE OR REPLACE FUNCTION :schema.news_needs(entries :schema.news[]) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT bit_or(CASE n.kind WHEN 5 THEN 2 WHEN 7 THEN 1 WHEN 8 THEN 1 ELSE 0 END) FROM unnest(entries) n);
END
$$;
