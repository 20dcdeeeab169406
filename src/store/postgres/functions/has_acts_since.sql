-- Whether an act is committed now that a snapshot does not contain.
-- Locks: none. Index: news_acts. Callers: refuse_acts_since(), news_has_act().
CREATE OR REPLACE FUNCTION :schema.has_acts_since(old pg_snapshot) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM :schema.news n WHERE n.kind = 7 AND n.xid >= pg_snapshot_xmax(old)) THEN
        RETURN true;
    END IF;
    IF pg_snapshot_xmin(old) = pg_snapshot_xmax(old) THEN -- no transaction ran when it was taken
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT 1 FROM pg_snapshot_xip(old) x (xid)
                   CROSS JOIN LATERAL (SELECT 1 FROM :schema.news n WHERE n.kind = 7 AND n.xid = x.xid LIMIT 1) a);
END
$$;
