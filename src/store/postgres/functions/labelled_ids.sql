-- At most `most` executions between two ids that have the label, in the order of their ids, along the primary key of the labels: way 3 of
-- label_walk(). Locks: none. Caller: choose_labelled().
CREATE OR REPLACE FUNCTION :schema.labelled_ids(ascending boolean, behind uuid, first uuid, last uuid, owner integer, label text,
                                                lowest text, highest text, most integer)
RETURNS uuid[]
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_variable
BEGIN
    IF ascending THEN
        RETURN ARRAY(SELECT l.execution_id FROM :schema.execution_labels l
                     WHERE l.execution_id > behind AND l.execution_id >= first AND l.execution_id <= last AND l.name = label
                       AND l.value >= lowest AND l.value <= highest AND (owner IS NULL OR l.workspace_id = owner)
                     ORDER BY l.execution_id LIMIT most);
    END IF;
    RETURN ARRAY(SELECT l.execution_id FROM :schema.execution_labels l
                 WHERE l.execution_id < behind AND l.execution_id >= first AND l.execution_id <= last AND l.name = label
                   AND l.value >= lowest AND l.value <= highest AND (owner IS NULL OR l.workspace_id = owner)
                 ORDER BY l.execution_id DESC LIMIT most);
END
$$;
