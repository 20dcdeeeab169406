-- The ids of the executions of a list or an act that have labels, in the order of their ids. Like choose_executions(), but it walks
-- along the index of labels, and looks at each execution that it finds there.
--   way                     that of label_walk(), which has also ended `first` and `last` with the window
--   ascending, behind       the direction and the cursor
--   names, froms, ends      the labels, and from and up to which value; of one value both are equal. The first one is walked along.
-- The executions are looked at in growing sets, so that a page costs little, and a condition that few meet costs no call for each of them.
-- Locks: none. Callers: page_of_executions, count_executions (queries/read.sql), bulk_ids (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.choose_labelled(way integer, ascending boolean, behind uuid, first uuid, last uuid, workspace text,
                                                   states integer, workflow text, executor_group text, error_code text,
                                                   idempotency_key text, created_since bigint, created_before bigint,
                                                   finished_before bigint, most bigint, retried integer, stuck integer, waiting_for text,
                                                   dismissed integer, parent uuid, version integer, node text, longer_than bigint,
                                                   shorter_than bigint, as_of bigint, error_text text,
                                                   names text[], froms text[], ends text[])
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_variable
DECLARE
    owner      constant integer := (SELECT w.id FROM :schema.workspaces w WHERE w.name = workspace);
    owners     integer[];
    sorted     uuid[]; -- of way 2
    candidates uuid[];
    size       integer := 200; -- of the next set
    passed     integer := 0;
    number     bigint;
BEGIN
    IF workspace IS NOT NULL AND owner IS NULL THEN
        RETURN;
    END IF;
    IF states & 112 = 0 THEN
        SELECT greatest(first, q.id) INTO first FROM :schema.workflow_execution_queue q ORDER BY q.id LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF way = 2 THEN
        owners := CASE WHEN owner IS NOT NULL THEN ARRAY[owner]
                       ELSE ARRAY(SELECT w.id FROM :schema.workspaces w UNION ALL SELECT t.id FROM :schema.deleted_workspaces t) END;
        sorted := ARRAY(SELECT l.execution_id FROM :schema.execution_labels l
                        WHERE l.workspace_id = ANY (owners) AND l.name = names[1] AND l.value >= froms[1] AND l.value <= ends[1]
                          AND CASE WHEN ascending THEN l.execution_id > behind ELSE l.execution_id < behind END
                          AND l.execution_id >= first AND l.execution_id <= last
                        ORDER BY CASE WHEN ascending THEN l.execution_id END, l.execution_id DESC);
    END IF;
    LOOP
        IF way = 2 THEN
            candidates := sorted[passed + 1:passed + size];
            passed := passed + size;
        ELSIF way = 1 AND ascending THEN
            candidates := ARRAY(SELECT l.execution_id FROM :schema.execution_labels l
                                WHERE l.workspace_id = owner AND l.name = names[1] AND l.value = froms[1] AND l.execution_id > behind
                                  AND l.execution_id >= first AND l.execution_id <= last ORDER BY l.execution_id LIMIT size);
        ELSIF way = 1 THEN
            candidates := ARRAY(SELECT l.execution_id FROM :schema.execution_labels l
                                WHERE l.workspace_id = owner AND l.name = names[1] AND l.value = froms[1] AND l.execution_id < behind
                                  AND l.execution_id >= first AND l.execution_id <= last ORDER BY l.execution_id DESC LIMIT size);
        ELSE
            candidates := :schema.labelled_ids(ascending, behind, first, last, owner, names[1], froms[1], ends[1], size);
        END IF;
        RETURN QUERY
            SELECT m.id FROM unnest(candidates) WITH ORDINALITY c (id, place)
            CROSS JOIN LATERAL :schema.matching_execution(c.id, states, workflow, executor_group, error_code, idempotency_key,
                                                          created_since, created_before, finished_before, retried, stuck, waiting_for,
                                                          version, node, longer_than, shorter_than, as_of, error_text,
                                                          dismissed, parent) m (id)
            WHERE cardinality(names) = 1
               OR NOT EXISTS (SELECT 1 FROM unnest(names, froms, ends) u (name, lowest, highest)
                              WHERE NOT EXISTS (SELECT 1 FROM :schema.execution_labels o
                                                WHERE o.execution_id = c.id AND o.name = u.name
                                                  AND o.value >= u.lowest AND o.value <= u.highest))
            ORDER BY c.place LIMIT most;
        GET DIAGNOSTICS number = ROW_COUNT;
        most := most - number;
        EXIT WHEN most = 0 OR cardinality(candidates) < size;
        behind := candidates[size];
        size := least(4 * size, 10000);
    END LOOP;
END
$$;
