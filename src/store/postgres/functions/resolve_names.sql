-- The names of requests as ids, in the order of the requests: the workspace, the newest version of the workflow, its demand, and the
-- executor group. NULL where there is none, and for a workflow that is disabled. A workflow of the workspace's own comes before one of all
-- workspaces; with only_of_all it is not looked for. The group is the request's, else the definition's, else the request's default_group,
-- else 'default'. A default group, or one of a definition, is made when there is none of that name; one that a request names is not.
-- A set with the same names in all requests is looked up once, as that of the children of a step.
-- Locks: a new group, until the end of the transaction; another transaction that makes the same one waits for it.
-- Callers: enqueue_set(), itself.
CREATE OR REPLACE FUNCTION :schema.resolve_names(workspaces text[], workflows text[], executor_groups text[], default_groups text[],
                                                 only_of_all boolean,
                                                 OUT workspace_ids integer[], OUT definition_ids bigint[], OUT group_ids integer[],
                                                 OUT demands integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    group_names text[];
    items constant integer := coalesce(cardinality(workspaces), 0); -- no request of the set is valid: NULL
BEGIN
    IF items > 1 AND workspaces = array_fill(workspaces[1], ARRAY[items]) AND workflows = array_fill(workflows[1], ARRAY[items])
       AND executor_groups = array_fill(executor_groups[1], ARRAY[items])
       AND coalesce(default_groups[1:items], '{}') IN ('{}', array_fill(default_groups[1], ARRAY[items])) THEN
        SELECT array_fill(r.workspace_ids[1], ARRAY[items]), array_fill(r.definition_ids[1], ARRAY[items]),
               array_fill(r.group_ids[1], ARRAY[items]), array_fill(r.demands[1], ARRAY[items])
        INTO workspace_ids, definition_ids, group_ids, demands
        FROM :schema.resolve_names(workspaces[1:1], workflows[1:1], executor_groups[1:1], default_groups[1:1], only_of_all) r;
        RETURN;
    END IF;
    LOOP
        SELECT array_agg(f.workspace_id), array_agg(f.definition_id), array_agg(f.group_id), array_agg(f.demand),
               array_agg(f.group_name)
        INTO workspace_ids, definition_ids, group_ids, demands, group_names
        FROM (SELECT a.workspace_id, d.definition_id, d.demand, n.group_name,
                     (SELECT g.id FROM :schema.executor_groups g WHERE g.name = n.group_name) AS group_id
              FROM unnest(workspaces, workflows, executor_groups, default_groups) WITH ORDINALITY
                   r (workspace, workflow, group_name, default_group, place)
              CROSS JOIN LATERAL (SELECT (SELECT w.id FROM :schema.workspaces w WHERE w.name = r.workspace) OFFSET 0) a (workspace_id)
              LEFT JOIN LATERAL (
                  SELECT CASE v.state WHEN 0 THEN v.id END, v.executor_group, v.demand FROM :schema.workflow_definitions v
                  WHERE v.name = r.workflow AND v.workspace_id IN (CASE WHEN only_of_all THEN 0 ELSE a.workspace_id END, 0)
                        AND a.workspace_id IS NOT NULL AND v.state <> 2
                  ORDER BY v.workspace_id DESC, v.version DESC LIMIT 1) d (definition_id, group_name, demand) ON true
              CROSS JOIN LATERAL (
                  SELECT coalesce(r.group_name, d.group_name, r.default_group, 'default') OFFSET 0) n (group_name)
              ORDER BY r.place) f;
        EXIT WHEN NOT EXISTS (SELECT 1 FROM unnest(group_ids, definition_ids, executor_groups) u (group_id, definition_id, named)
                              WHERE u.group_id IS NULL AND u.definition_id IS NOT NULL AND u.named IS NULL);
        INSERT INTO :schema.executor_groups (name)
        SELECT DISTINCT u.name COLLATE "C"
        FROM unnest(group_names, group_ids, definition_ids, executor_groups) u (name, group_id, definition_id, named)
        WHERE u.group_id IS NULL AND u.definition_id IS NOT NULL AND u.named IS NULL ORDER BY 1
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            INSERT INTO :schema.news (at, kind) VALUES (:schema.store_time(), 8);
        END IF;
    END LOOP;
END
$$;
