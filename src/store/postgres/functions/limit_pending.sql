-- Of the places that a set is going to insert (NULL = all with a definition), those that fit into their workspaces: the first ones of
-- each. full_ids: those with places that were left out; NULL = none. The workspaces are
-- locked in the order of their ids, so that two sets cannot wait for each other. Locks: those of pending_room(). Caller: enqueue_set().
CREATE OR REPLACE FUNCTION :schema.limit_pending(workspace_ids integer[], definition_ids bigint[], places integer[],
                                                 OUT chosen integer[], OUT full_ids integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wanted record;
    room   integer;
    rooms  integer[];
BEGIN
    chosen := places;
    FOR wanted IN SELECT w.id, w.pending_max AS most, u.items
                  FROM (SELECT r.workspace_id, count(*)::integer AS items
                        FROM unnest(workspace_ids, definition_ids) WITH ORDINALITY r (workspace_id, definition_id, place)
                        WHERE r.definition_id IS NOT NULL AND (places IS NULL OR r.place IN (SELECT unnest(places)))
                        GROUP BY r.workspace_id) u
                  CROSS JOIN LATERAL (SELECT o.id, o.pending_max FROM :schema.workspaces o WHERE o.id = u.workspace_id OFFSET 0) w
                  WHERE w.pending_max > 0 ORDER BY w.id LOOP
        room := :schema.pending_room(wanted.id, wanted.most, wanted.items);
        IF room < wanted.items THEN
            full_ids := full_ids || wanted.id;
            rooms := rooms || room;
        END IF;
    END LOOP;
    IF full_ids IS NOT NULL THEN
        chosen := ARRAY(SELECT n.place
                        FROM (SELECT r.place, r.workspace_id, row_number() OVER (PARTITION BY r.workspace_id ORDER BY r.place) AS nth
                              FROM unnest(workspace_ids, definition_ids) WITH ORDINALITY r (workspace_id, definition_id, place)
                              WHERE r.definition_id IS NOT NULL AND (places IS NULL OR r.place IN (SELECT unnest(places)))) n
                        WHERE n.nth <= coalesce(rooms[array_position(full_ids, n.workspace_id)], n.nth)
                        ORDER BY n.place);
    END IF;
END
$$;
