-- How many of `wanted` new executions a workspace takes, which may have `most` pending ones. The rows are counted by index, at most
-- `most` of them, so it needs no scheduler and no counter that enqueues would wait for. A count is not made for each call: it lets this
-- session enqueue the 64th part of the free places without another one, for about a second. So several sessions together may pass `most`
-- by one 64th each. Executions of open transactions are not counted. So a set that is larger than that part waits for the open transactions
-- with such sets in the same workspace; smaller ones never wait. In a transaction of REPEATABLE READ it is refused with 40001 when such a
-- set was committed behind its snapshot. A count of many rows holds longer, so that it stays a small part of the
-- work. A set that waits for longer than lock_timeout gets no room. An undone transaction undoes the use of the places, too.
-- Locks: for a large set the row of the workspace in pending_gates. Indexes: queue_runnable, queue_delayed.
-- Callers: enqueue_one(), limit_pending().
CREATE OR REPLACE FUNCTION :schema.pending_room(owner integer, most integer, wanted integer) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    parts  constant integer := 64;
    small  constant integer := 10; -- requests that wait for no other session, also where a 64th is less
    now_us constant bigint := :schema.store_time();
    kept   text[] := string_to_array(current_setting('weir.pending_room', true), '/'); -- owner, most, places left, until, schema
    lanes  bigint[];
    room   bigint;
BEGIN
    IF kept[1] = owner::text AND kept[2] = most::text AND kept[5] = :'schema' AND now_us < kept[4]::bigint
       AND kept[3]::bigint >= wanted THEN
        kept[3] := kept[3]::bigint - wanted;
        PERFORM set_config('weir.pending_room', array_to_string(kept, '/'), false);
        RETURN wanted;
    END IF;
    IF wanted > greatest(most / parts, small) THEN
        BEGIN
            INSERT INTO :schema.pending_gates (workspace_id) VALUES (owner) ON CONFLICT DO NOTHING;
            -- Not only locked: a transaction that stands at an older snapshot cannot count the sets before it, and fails here.
            UPDATE :schema.pending_gates g SET workspace_id = owner WHERE g.workspace_id = owner;
        EXCEPTION WHEN lock_not_available THEN
            RETURN 0; -- an error would refuse the requests of other workspaces, too, which are in the same set
        END;
    END IF;
    lanes := ARRAY(SELECT a.base | owner FROM :schema.group_lanes a);
    SELECT most - count(*) INTO room
    FROM (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.due_at IS NULL AND q.lane_id = ANY (lanes) AND q.phase = 0
          UNION ALL
          SELECT 1 FROM :schema.workflow_execution_queue q
          WHERE q.due_at IS NOT NULL AND q.waiting_for IS NULL AND q.lane_id = ANY (lanes)
          LIMIT most) p;
    PERFORM set_config('weir.pending_room', format('%s/%s/%s/%s/%s', owner, most, (room - wanted) / parts,
                                                   now_us + 1000000 + 10 * (most - room), :'schema'), false);
    RETURN least(room, wanted);
END
$$;
