-- How the executions of a filter with labels are found, and where the window of this statement ends (store/reading.h). It is called before
-- choose_labelled(), which then reads no entry behind that end.
--   ascending, behind       the direction and the cursor; first, last: the ids of the filter
--   names, froms, ends      the labels, and from and up to which value; of one value both are equal
--   by_id, most             whether the filter has an id; the entries of a window
--   place                   of the label that is walked along: the rarest, as far as `most` entries show it
--   way                     1: one value in one workspace. The index labels_by_value has the order of the ids.
--                           2: at most `most` entries match, in any order. They are read and sorted.
--                           3: more match in another order. All labelled executions between two ids are read, in their order.
--   window_end              the last id of the window, or NULL: all that match are in it. Of way 3 the caller may move it outwards.
-- Without ended states no id before the first one of the queue can match.
-- Locks: none. Caller: label_walk (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.label_walk(ascending boolean, behind uuid, first uuid, last uuid, workspace text, states integer,
                                              names text[], froms text[], ends text[], by_id boolean, most bigint,
                                              OUT place integer, OUT way integer, OUT window_end uuid)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_variable
DECLARE
    owner        constant integer := (SELECT w.id FROM :schema.workspaces w WHERE w.name = workspace);
    owners       integer[];
    is_one       boolean;
    number       bigint;
    least_number bigint := most;
    chosen       text;
    value        text;
BEGIN
    place := 1;
    way := 3;
    IF workspace IS NOT NULL AND owner IS NULL THEN
        RETURN;
    END IF;
    IF states & 112 = 0 THEN
        SELECT greatest(first, q.id) INTO first FROM :schema.workflow_execution_queue q ORDER BY q.id LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    owners := CASE WHEN owner IS NOT NULL THEN ARRAY[owner]
                   ELSE ARRAY(SELECT w.id FROM :schema.workspaces w UNION ALL SELECT t.id FROM :schema.deleted_workspaces t
                              LIMIT most + 1) END;
    FOR n IN 1..cardinality(names) LOOP
        EXIT WHEN by_id OR cardinality(owners) > most;
        is_one := owner IS NOT NULL AND froms[n] = ends[n];
        number := CASE WHEN is_one AND cardinality(names) = 1 THEN most
                       ELSE (SELECT count(*) FROM (SELECT 1 FROM :schema.execution_labels l
                                                   WHERE l.workspace_id = ANY (owners) AND l.name = names[n]
                                                     AND l.value >= froms[n] AND l.value <= ends[n] LIMIT least_number) e) END;
        IF number < least_number OR (is_one AND way = 3) THEN
            place := n;
            way := CASE WHEN is_one THEN 1 ELSE 2 END;
            least_number := number;
        END IF;
    END LOOP;
    chosen := names[place];
    value := froms[place];
    IF way = 1 AND ascending THEN
        window_end := (SELECT l.execution_id FROM :schema.execution_labels l
                       WHERE l.workspace_id = owner AND l.name = chosen AND l.value = value AND l.execution_id > behind
                         AND l.execution_id >= first AND l.execution_id <= last ORDER BY l.execution_id LIMIT 1 OFFSET most - 1);
    ELSIF way = 1 THEN
        window_end := (SELECT l.execution_id FROM :schema.execution_labels l
                       WHERE l.workspace_id = owner AND l.name = chosen AND l.value = value AND l.execution_id < behind
                         AND l.execution_id >= first AND l.execution_id <= last ORDER BY l.execution_id DESC LIMIT 1 OFFSET most - 1);
    ELSIF way = 3 AND ascending THEN
        window_end := (SELECT l.execution_id FROM :schema.execution_labels l WHERE l.execution_id > behind AND l.execution_id >= first
                         AND l.execution_id <= last ORDER BY l.execution_id LIMIT 1 OFFSET most - 1);
    ELSIF way = 3 THEN
        window_end := (SELECT l.execution_id FROM :schema.execution_labels l WHERE l.execution_id < behind AND l.execution_id >= first
                         AND l.execution_id <= last ORDER BY l.execution_id DESC LIMIT 1 OFFSET most - 1);
    END IF;
END
$$;
