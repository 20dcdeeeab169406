-- Whether an act is in the news of a round; with has_more, whether any act was committed since the snapshot `old`. It may be in the news
-- that is left. In plpgsql for the reason of requests_wait().
-- Locks: none. Caller: schedule().
CREATE OR REPLACE FUNCTION :schema.news_has_act(entries :schema.news[], has_more boolean, old pg_snapshot) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF has_more THEN
        RETURN :schema.has_acts_since(old);
    END IF;
    RETURN cardinality(entries) > 0 AND EXISTS (SELECT 1 FROM unnest(entries) n WHERE n.kind = 7);
END
$$;
