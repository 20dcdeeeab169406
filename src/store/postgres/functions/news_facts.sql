-- Sums up news for the scheduler: a fact per lane, or per lane and node where a node holds less.
--   entries  the news of one round, from news_since()
-- Rows by kinds of news; columns see schedule():
--   runnable > 0 (1, 3)   'runnables': list1 lanes, list2 their least ranks
--   held (3, 4)           'helds' per node, n1: list1 lanes, list2 slots; the items of the node itself change by the same number
--   node_held (5)         'held' without a lane: items of the node only
--   workspaces (7)        'workspace' with its limits, or 'workspaces' for any
--   due, 4, 5, 7, 8       'news': the reads to make besides, and the earliest due time; 4: of ends without a slot, which ask for no read
--
-- 1. One pass over the news finds the kinds that occur. Each statement below runs only for its kind: after a pause it costs tens of
--    microseconds, and a program waits for the start of the item that it has enqueued.
-- 2. Changes of one lane in several entries are summed up, so the scheduler applies each lane once per round. Most rounds read one entry
--    with such changes, which has each lane once.
-- 3. Limits are read from the workspaces now and not from the news: a later change is in later news, and the newest limits count.
-- Locks: none. Caller: schedule().
CREATE OR REPLACE FUNCTION :schema.news_facts(entries :schema.news[])
RETURNS TABLE (tag text, n1 bigint, n2 bigint, n3 bigint, n4 bigint, flag boolean, list1 bigint[], list2 bigint[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    need_state constant bigint := 1;
    need_handed_over constant bigint := 2;
    need_due constant bigint := 4;
    need_nothing constant bigint := 8;
    has record;
BEGIN
    SELECT bool_or(n.least_rank IS NOT NULL) AS ranks, count(n.held) AS holds, bool_or(0 = ANY (n.held)) AS any_zero,
           bool_or(n.kind = 5) AS handovers, bool_or(n.workspaces IS NOT NULL) AS workspaces,
           bool_or(n.kind = 7 AND n.workspaces IS NULL) AS any_workspace, min(n.due) AS due,
           bit_or(CASE WHEN n.kind = 5 THEN need_handed_over WHEN n.kind IN (7, 8) THEN need_state ELSE 0 END
                  | CASE WHEN n.due IS NOT NULL THEN need_due ELSE 0 END
                  | CASE WHEN n.kind = 4 AND n.runnable IS NOT NULL THEN need_nothing ELSE 0 END) AS bits
    INTO has FROM unnest(entries) n;
    IF has.ranks THEN
        RETURN QUERY
        SELECT 'runnables', NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, array_agg(f.lane), array_agg(f.rank)
        FROM (SELECT l.lane, min(l.rank) AS rank
              FROM (SELECT unnest(n.lanes) AS lane, unnest(n.runnable) AS items, unnest(n.least_rank) AS rank
                    FROM unnest(entries) n WHERE n.least_rank IS NOT NULL) l
              WHERE l.items > 0 GROUP BY l.lane) f
        HAVING count(*) > 0;
    END IF;
    IF has.holds = 1 AND NOT has.any_zero THEN
        RETURN QUERY
        SELECT 'helds', n.node_id, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, n.lanes, n.held::bigint[]
        FROM unnest(entries) n WHERE n.held IS NOT NULL;
    ELSIF has.holds > 0 THEN
        RETURN QUERY
        SELECT 'helds', f.node_id, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, array_agg(f.lane), array_agg(f.items)
        FROM (SELECT l.lane, l.node_id, sum(l.items) AS items
              FROM (SELECT n.node_id, unnest(n.lanes) AS lane, unnest(n.held) AS items
                    FROM unnest(entries) n WHERE n.held IS NOT NULL) l
              WHERE l.items <> 0 GROUP BY l.lane, l.node_id) f
        GROUP BY f.node_id;
    END IF;
    IF has.handovers THEN
        RETURN QUERY
        SELECT 'held', 0::bigint, n.node_id, 0::bigint, sum(n.node_held), NULL::boolean, NULL::bigint[], NULL::bigint[]
        FROM unnest(entries) n WHERE n.kind = 5 AND n.node_id <> 0 GROUP BY n.node_id;
    END IF;
    IF has.workspaces THEN
        RETURN QUERY
        SELECT 'workspace', c.id::bigint, w.slots_max::bigint, w.weight::bigint, (w.id IS NOT NULL)::integer::bigint, w.paused,
               NULL::bigint[], NULL::bigint[]
        FROM (SELECT DISTINCT unnest(n.workspaces) AS id FROM unnest(entries) n) c
        LEFT JOIN :schema.workspaces w ON w.id = c.id;
    END IF;
    IF has.any_workspace THEN
        tag := 'workspaces';
        RETURN NEXT;
    END IF;
    IF has.bits > 0 THEN
        tag := 'news';
        n1 := has.bits;
        n2 := has.due;
        RETURN NEXT;
    END IF;
END
$$;
