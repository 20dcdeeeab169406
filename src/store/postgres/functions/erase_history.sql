-- One transaction of the erasure of the rows that deleted workspaces of a name have left. It looks at the next `most` rows of the history
-- behind `after`, in the order of their ids, and purges those of these workspaces. After the last row it removes their keys and workflows,
-- and puts the erasure on record. Returns 'ok' or 'workspace_not_found'; erased, and last_id = the last row, NULL = the erasure is
-- complete. A living workspace of the same name is another one, and is not touched.
-- Locks: the removed rows. Callers: delete_workspace(), erase_history (queries/deletion.sql).
CREATE OR REPLACE FUNCTION :schema.erase_history(workspace text, after uuid, most integer, actor text DEFAULT NULL, why text DEFAULT NULL,
                                                 OUT status text, OUT erased bigint, OUT last_id uuid)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    owners constant integer[] := ARRAY(SELECT t.id FROM :schema.deleted_workspaces t WHERE t.name = workspace);
    ids    uuid[];
BEGIN
    erased := 0;
    IF cardinality(owners) = 0 THEN
        status := 'workspace_not_found';
        RETURN;
    END IF;
    status := 'ok';
    SELECT (array_agg(n.id ORDER BY n.id DESC))[1], array_agg(n.id ORDER BY n.id) FILTER (WHERE n.workspace_id = ANY (owners))
    INTO last_id, ids
    FROM (SELECT h.id, h.workspace_id FROM :schema.workflow_executions h WHERE h.id > after ORDER BY h.id LIMIT most) n;
    IF ids IS NOT NULL THEN
        SELECT count(*) FILTER (WHERE p.outcome = 'changed') INTO erased FROM :schema.purge_items(ids) p;
    END IF;
    IF last_id IS NULL THEN
        DELETE FROM :schema.idempotency_keys k WHERE k.workspace_id = ANY (owners);
        DELETE FROM :schema.hook_outbox o WHERE o.workspace_id = ANY (owners);
        DELETE FROM :schema.workflow_definitions d WHERE d.workspace_id = ANY (owners)
            AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.definition_id = d.id);
        UPDATE :schema.deleted_workspaces t SET erased_at = :schema.store_time() WHERE t.id = ANY (owners) AND t.erased_at IS NULL;
    END IF;
    IF erased > 0 OR last_id IS NULL THEN
        PERFORM :schema.record_act(actor, why, 'workspace erase', workspace, NULL, NULL, erased);
    END IF;
END
$$;
