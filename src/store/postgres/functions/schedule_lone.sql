-- A round of a scheduler that has nothing to do, with an offer for the item that its news may bring (struct lone_offer in
-- queue/scheduler.h). If the news is one enqueue, or the end of one wait, and the offer allows it, the item is assigned in this call. Else
-- it is schedule().
--   own_node, own_epoch, since, line, limits  see schedule(); no news is left of an earlier round
--   lone_node             the node that gets the item
--   kinds                 ids of lanes without their workspace that the offer allows
--   workspaces, held      the workspaces that hold slots, and how many; the others hold none
--   takes_woken           the caller reads an item that was parked; nodes of an earlier version do not
--
-- 1. One statement locks the row of scheduler, the node and the item, in the order of every round, and checks all of them. The item is the
--    first head of its lane from the rank of the news on. Its workspace must have a free slot, by its limits as they are now. An item that
--    was deferred, cancelled or handed over before goes the way of schedule(), and so does one with a signal that was never parked.
-- 2. The same statement writes what assign_items() writes: the item, its row of claims, and news of kind 2.
-- 3. An act that was committed since the news was read undoes the transaction, and the caller repeats the round without an offer.
-- The number of statements and expressions matters. After a pause each of them costs 2 to 50 us, and a program waits for the start of the
-- item that it has enqueued.
--
-- Returns the rows of schedule(), or these two:
--   lone   n1 store time, n2 lane, n3 rank of the news. n4 slots_max, n5 weight. n6 fence, n7 definition, n8 priority, n9 created. flag: a
--          request waits for own_node. id, name: its trace context. data: its params if it is for own_node; NULL = {}. list1 ranks,
--          id_list: the first heads of the lane, of which the first is the item. Of one that was parked, list2 has the numbers that
--          `woken` of assign_items() has behind the creation time. places: not NULL if it has a signal that no step has consumed
--   seen   as in schedule()
-- Locks: those of schedule(). Caller: postgres_schedule().
CREATE OR REPLACE FUNCTION :schema.schedule_lone(own_node bigint, own_epoch bigint, since text, line text, limits integer[],
                                                 lone_node bigint, kinds bigint[], workspaces bigint[], held bigint[],
                                                 takes_woken boolean DEFAULT false)
RETURNS TABLE (tag text, place integer, n1 bigint, n2 bigint, n3 bigint, n4 bigint, n5 bigint, n6 bigint, n7 bigint, n8 bigint,
               n9 bigint, flag boolean, id uuid, name text, data bytea, places integer[], plain integer[], list1 bigint[],
               list2 bigint[], list3 bigint[], id_list uuid[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '50ms'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    old constant pg_snapshot := since::pg_snapshot;
    news_seen constant pg_snapshot := pg_current_snapshot();
    entries :schema.news[];
    lane bigint; least_rank bigint;
    most constant integer := 4;
BEGIN
    IF pg_snapshot_xmin(old) = pg_snapshot_xmax(old) THEN -- the range of news_since(): no transaction ran when it was taken
        entries := ARRAY(SELECT l FROM :schema.news l WHERE l.xid >= pg_snapshot_xmax(old) AND l.xid < pg_snapshot_xmax(news_seen)
                         AND pg_visible_in_snapshot(l.xid, news_seen) AND l.kind NOT IN (2, 6) ORDER BY l.xid, l.seq LIMIT 2);
    ELSE
        entries := ARRAY(SELECT n FROM :schema.news_since(old, news_seen, '0', 0, 2, false) n);
    END IF;
    lane := (entries[1]).lanes[1]; least_rank := (entries[1]).least_rank[1];
    IF cardinality(entries) = 1 AND (entries[1]).kind = 1 AND cardinality((entries[1]).lanes) = 1 AND (entries[1]).due IS NULL
       AND lane >> 31 = ANY (kinds) AND line = :schema.timeline() THEN
        FOR tag, n1, n2, n3, n4, n5, n6, n7, n8, n9, flag, id, name, data, list1, list2, id_list IN
            WITH head AS MATERIALIZED (
                SELECT w.slots_max, w.weight, h.ranks, h.ids
                FROM :schema.workspaces w
                CROSS JOIN LATERAL (
                    SELECT array_agg(o.rank) AS ranks, array_agg(o.id) AS ids
                    FROM (SELECT q.rank, q.id FROM :schema.workflow_execution_queue q
                          WHERE q.due_at IS NULL AND q.phase = 0 AND q.lane_id = lane
                            AND (q.rank, q.id) > (least_rank, '00000000-0000-0000-0000-000000000000'::uuid)
                          ORDER BY q.rank, q.id LIMIT most + 1) o) h
                WHERE w.id = (lane & 2147483647)::integer AND NOT w.paused AND h.ids IS NOT NULL
                  AND w.slots_max > coalesce(held[array_position(workspaces, lane & 2147483647)], 0)
            ), epoch AS MATERIALIZED (
                SELECT 1 FROM :schema.scheduler s
                WHERE s.partition BETWEEN 0 AND 0 AND s.epoch = own_epoch AND s.node_id = own_node
                ORDER BY s.partition DESC LIMIT 1 FOR SHARE
            ), node AS MATERIALIZED (
                SELECT n.id, n.target_id, n.kind, nextval(':schema.fences') AS fence
                FROM epoch CROSS JOIN LATERAL (
                    SELECT l.id, l.target_id, (l.engine = 'temporal')::integer AS kind FROM :schema.nodes l
                    WHERE l.id BETWEEN lone_node AND lone_node AND l.dead_at IS NULL AND l.stopped_at IS NULL
                      AND l.recovered_at IS NULL AND l.desired_state = 'run'
                    ORDER BY l.id DESC LIMIT 1 FOR KEY SHARE) n
            ), taken AS (
                UPDATE :schema.workflow_execution_queue q
                SET status = 'CLAIMED', phase = 2, node_id = n.id, target_id = n.target_id, fence = n.fence,
                    claimed_at = greatest(now_us, q.created_at)
                FROM node n CROSS JOIN head h
                WHERE q.id = h.ids[1] AND q.phase = 0 AND (q.lane_id >> 31) & 1 = n.kind
                  AND q.starts_refused + q.deferrals + q.handovers = 0 AND q.error_code IS NULL AND q.cancel_at IS NULL
                  AND (q.interruptions = 0 AND q.run_at = q.created_at AND q.signals = 0
                       OR takes_woken AND q.interruptions > 0 AND q.suspicion < 2)
                RETURNING q.id, q.fence, q.definition_id, q.priority, q.created_at, q.has_params, q.traceparent,
                          CASE WHEN q.interruptions > 0
                               THEN ARRAY[q.run_at, coalesce(q.dispatched_at, 0), q.interruptions, q.interruptions_at_park,
                                          coalesce(q.woken_at, 0), q.signals] END AS woken
            ), claim AS (
                INSERT INTO :schema.claims (node_id, fence, at, held, size, ids)
                SELECT lone_node, t.fence, now_us, 1, 1, ARRAY[t.id] FROM taken t
            ), books AS (
                INSERT INTO :schema.news (at, kind, node_id, lanes, runnable, held)
                SELECT now_us, 2, own_node, ARRAY[lane], ARRAY[-1], ARRAY[1] FROM taken t
            )
            SELECT 'lone', now_us, lane, least_rank, h.slots_max, h.weight, t.fence, t.definition_id, t.priority, t.created_at,
                   :schema.requests_wait(own_node), t.id, t.traceparent,
                   CASE WHEN t.has_params AND own_node = lone_node
                        THEN coalesce((SELECT p.params FROM :schema.execution_params p WHERE p.id = t.id), '') END, h.ranks, t.woken, h.ids
            FROM head h CROSS JOIN taken t
        LOOP
            IF list2[6] > 0 THEN -- the row is locked, so this statement sees each signal that it counts
                places := (SELECT '{1}'::integer[] FROM :schema.signals s WHERE s.execution_id = id AND s.consumed_at IS NULL LIMIT 1);
            END IF;
            RETURN NEXT;
        END LOOP;
        IF FOUND THEN
            PERFORM :schema.write_stream(now_us, '{claim}', ARRAY[id]) WHERE :schema.stream_is_read(now_us);
            PERFORM :schema.notify_nodes(ARRAY[lone_node]) WHERE lone_node <> own_node;
            PERFORM :schema.refuse_acts_since(news_seen);
            tag := 'seen';
            name := news_seen::text;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT s.* FROM :schema.schedule(own_node, own_epoch, 0, false, since, line, NULL, '0', 0, '{}', '{}', '{}', false, '{}',
                                                  '{}', '{}', '{}', 0, '{}', limits, true) s;
END
$$;
