-- One round of the scheduler in one statement: reads news, assigns, reads heads (store_schedule() in store.h).
--   own_node, own_epoch   the node that schedules; with another epoch in the row nothing is written
--   lease, awaits_lock    lease > 0: the lease of the role is renewed for this time, see renew_role()
--   since, line           the last round's 'seen' and 'timeline'; NULL since = load all facts
--   until, from_xid, from_seq  the last round's 'more', else NULL, '0', 0
--   ids, nodes, handed, skip_locked  the assignments in the order of their start, see assign_items()
--   lanes, ranks, after, mosts       the reads, see schedule_heads()
--   needs                 bits of enum schedule_need
--   orphans               lanes without a workspace
--   limits                of items to promote, of orphans to end, of news to read
--   lists_woken           the caller reads rows with the tag `woken`; nodes of an earlier version do not
--
-- 1. Check the epoch and the server, and renew the lease. The row of scheduler stays locked if the round writes: a takeover waits for the
--    commit, so no assignment of a former epoch follows it.
-- 2. Without `since`, load all facts. Else read the news since the last round, as facts. It is read before the assignment: an act in it
--    prevents the assignment, and so does any act since the last 'seen' while news is left.
-- 3. The state of nodes, groups and handed over items that this news has changed is read in this round: an assignment must not overtake it.
-- 4. Record the assignments.
-- 5. Make items that are due runnable, end items without a workspace, and read the state and the heads that are needed.
-- 6. Look for acts that were committed since step 2, see refuse_acts_since(). If there is one, the transaction is undone, and the caller
--    repeats the round without assignments.
--
-- Returns rows. Columns by tag; other columns are NULL:
--   round        n1 store time, n2 next due time, n3 1: an act was read and nothing was assigned, flag a request waits for own_node
--   seen         name: all news that this snapshot contains was read  timeline     name
--   more         name, n1, n2: news is left; the position of the next round
--   assigned, woken, taken, locked  see assign_items(); name: its column `trace`
--   orphan       n1 workspace, id: an item that was ended
--   heads        place, n1 slots_max, n2 weight, flag paused, list1 ranks, ids (NULL: the lane has none)
--   news_heads   the same without a place: n3 lane, n4 after which rank. Of lanes with a new item in the news, when the call asks for
--                nothing else: the item is assigned one round trip earlier
--   runnables, helds  see news_facts(); the former of promote_due(), too: then `name` has the id of each item
--   pass         n1 lane, n2 pass
--   held         n1 lane, n2 node, n3 slots, n4 node_held
--   handed_over  n1 lane, n2 suspicion, n3 suspected at, n5 target, id
--   suspect      n1 lane, n2 suspicion, n3 claimed at, n4 node, n5 target, id
--   suspects, suspects_end  around the list of these two
--   runnable     n1 lane, n2 rank
--   workspace    n1 id, n2 slots_max, n3 weight, n4 exists, flag paused       workspaces   (of any)
--   queue        flag paused                                          group        n1 id, flag paused
--   nodes, nodes_end  around the list of nodes                        node         n1 id, n2 group, n3 capacity, n4 target,
--                n5 1: engine of the kind `temporal`, flag accepts
--   news         n1 bits of enum schedule_need, n2 due time
--   void         alone: another epoch or another server. The caller must load again under a new epoch.
--
-- Locks: with something to write, the row of scheduler FOR SHARE; to renew the lease, FOR NO KEY UPDATE. Then those of assign_items().
-- Last, as in every act, the table act_gate. Callers: schedule_lone(), postgres_schedule().
CREATE OR REPLACE FUNCTION :schema.schedule(own_node bigint, own_epoch bigint, lease bigint, awaits_lock boolean, since text,
                                            line text, until text, from_xid text, from_seq bigint, ids uuid[], nodes bigint[],
                                            handed boolean[], skip_locked boolean, lanes bigint[], ranks bigint[], after uuid[],
                                            mosts integer[], needs integer, orphans bigint[], limits integer[],
                                            lists_woken boolean DEFAULT false)
RETURNS TABLE (tag text, place integer, n1 bigint, n2 bigint, n3 bigint, n4 bigint, n5 bigint, n6 bigint, n7 bigint, n8 bigint,
               n9 bigint, flag boolean, id uuid, name text, data bytea, places integer[], plain integer[], list1 bigint[],
               list2 bigint[], list3 bigint[], id_list uuid[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '50ms'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    need_state constant integer := 1; need_handed_over constant integer := 2; need_due constant integer := 4;
    now_us constant bigint := :schema.store_time();
    next_due bigint := CASE WHEN since IS NULL OR needs & need_due > 0 THEN :schema.next_due() END;
    assigns boolean := cardinality(ids) > 0; has_act boolean := false;
    news_seen constant pg_snapshot := coalesce(until::pg_snapshot, pg_current_snapshot());
    entries :schema.news[];
    has_more boolean; promoted record;
    news_heads_most constant integer := 8;
BEGIN
    IF NOT (CASE WHEN lease > 0 THEN :schema.renew_role(own_node, own_epoch, lease, awaits_lock)
                 ELSE :schema.has_epoch(own_node, own_epoch, assigns OR cardinality(orphans) > 0 OR next_due <= now_us) END)
       OR line <> :schema.timeline() THEN
        tag := 'void';
        RETURN NEXT;
        RETURN;
    END IF;
    IF since IS NULL THEN -- step 2
        RETURN QUERY SELECT l.tag, NULL::integer, l.n1, l.n2, l.n3, l.n4, l.n5, NULL::bigint, NULL::bigint, NULL::bigint,
                            NULL::bigint, l.flag, l.id, l.name, NULL::bytea, NULL::integer[], NULL::integer[], NULL::bigint[],
                            NULL::bigint[], NULL::bigint[], NULL::uuid[]
                     FROM :schema.schedule_load() l;
    ELSE
        entries := ARRAY(SELECT n FROM :schema.news_since(since::pg_snapshot, news_seen, from_xid::xid8, from_seq, limits[3], false) n);
        has_more := cardinality(entries) = limits[3];
        has_act := :schema.news_has_act(entries, has_more, since::pg_snapshot);
        tag := CASE WHEN has_more THEN 'more' ELSE 'seen' END;
        name := news_seen::text;
        n1 := (entries[limits[3]]).xid::text::bigint;
        n2 := (entries[limits[3]]).seq;
        RETURN NEXT;
        IF cardinality(entries) > 0 THEN
            RETURN QUERY SELECT f.tag, NULL::integer, f.n1, f.n2, f.n3, f.n4, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
                                NULL::bigint, f.flag, NULL::uuid, NULL::text, NULL::bytea, NULL::integer[], NULL::integer[],
                                f.list1, f.list2, NULL::bigint[], NULL::uuid[]
                         FROM :schema.news_facts(entries) f;
            needs := needs | :schema.news_needs(entries); -- step 3
        END IF;
    END IF;
    IF assigns AND NOT has_act THEN -- step 4
        RETURN QUERY SELECT a.tag, a.place, a.n1, a.n2, a.n3, a.n4, a.n5, a.n6, a.n7, a.n8, a.n9, a.flag, NULL::uuid, a.trace, a.data,
                            a.places, a.plain, a.list1, a.list2, a.list3, NULL::uuid[]
                     FROM :schema.assign_items(own_node, ids, nodes, handed, skip_locked, lists_woken) a;
    END IF;
    IF next_due <= now_us THEN -- step 5, to the heads of the news
        promoted := :schema.promote_due(now_us, limits[1]); next_due := promoted.due_us;
        RETURN QUERY SELECT 'runnables', NULL::int4, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8,
                            NULL::int8, NULL::int8, NULL::bool, NULL::uuid, promoted.ids::text, NULL::bytea, NULL::int4[], NULL::int4[],
                            promoted.lanes, promoted.ranks, NULL::int8[], NULL::uuid[] WHERE promoted.lanes IS NOT NULL;
    END IF;
    IF cardinality(orphans) > 0 THEN
        RETURN QUERY SELECT 'orphan', NULL::int4, o.workspace, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8,
                            NULL::int8, NULL::int8, NULL::boolean, o.item, NULL::text, NULL::bytea, NULL::int4[], NULL::int4[],
                            NULL::int8[], NULL::int8[], NULL::int8[], NULL::uuid[] FROM :schema.fail_orphans(orphans, limits[2]) o;
    END IF;
    IF since IS NOT NULL AND needs & (need_state | need_handed_over) > 0 THEN
        RETURN QUERY SELECT f.tag, NULL::integer, f.n1, f.n2, f.n3, f.n4, f.n5, NULL::bigint, NULL::bigint,
                            NULL::bigint, NULL::bigint, f.flag, f.id, NULL::text, NULL::bytea, NULL::integer[], NULL::integer[],
                            NULL::bigint[], NULL::bigint[], NULL::bigint[], NULL::uuid[]
                     FROM :schema.schedule_state(needs & need_state > 0, needs & need_handed_over > 0) f;
    END IF;
    IF cardinality(lanes) > 0 THEN
        RETURN QUERY SELECT 'heads', h.place, h.slots_max, h.weight, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
                            NULL::bigint, NULL::bigint, h.is_paused, NULL::uuid, NULL::text, NULL::bytea, NULL::integer[],
                            NULL::integer[], h.rank_list, NULL::bigint[], NULL::bigint[], h.id_list
                     FROM :schema.schedule_heads(lanes, ranks, after, mosts) h;
    END IF;
    IF cardinality(entries) BETWEEN 1 AND news_heads_most AND NOT assigns AND cardinality(lanes) = 0 THEN
        RETURN QUERY SELECT 'news_heads', NULL::integer, h.slots_max, h.weight, h.lane, h.after_rank, NULL::bigint, NULL::bigint,
                            NULL::bigint, NULL::bigint, NULL::bigint, h.is_paused, NULL::uuid, NULL::text, NULL::bytea, NULL::integer[],
                            NULL::integer[], h.rank_list, NULL::bigint[], NULL::bigint[], h.id_list
                     FROM :schema.news_heads(entries) h;
    END IF;
    IF assigns AND NOT has_act THEN PERFORM :schema.refuse_acts_since(news_seen); END IF; -- step 6
    tag := 'round';
    n1 := now_us;
    n2 := next_due;
    n3 := has_act::integer;
    flag := :schema.requests_wait(own_node);
    name := NULL;
    RETURN NEXT;
END
$$;
