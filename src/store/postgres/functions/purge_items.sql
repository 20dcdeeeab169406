-- Removes ended executions of a set with all that belongs to them. The counters of ended executions keep them.
-- A row per id: 'changed' or 'refused', and the state of a living one. Locks: the removed rows. Callers: erase_history(), purge_items
-- (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.purge_items(ids uuid[], actor text DEFAULT NULL, why text DEFAULT NULL, subject text DEFAULT NULL)
RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    gone   uuid[];
    owners integer[];
    keys   text[];
    is_archived boolean; -- at least one of them
BEGIN
    WITH removed AS (
        DELETE FROM :schema.workflow_executions h WHERE h.id = ANY (ids) RETURNING h.id, h.workspace_id, h.idempotency_key, h.archived
    )
    SELECT array_agg(r.id), array_agg(r.workspace_id), array_agg(r.idempotency_key), bool_or(r.archived)
    INTO gone, owners, keys, is_archived FROM removed r;
    DELETE FROM :schema.execution_params p WHERE p.id = ANY (gone);
    DELETE FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY (gone);
    DELETE FROM :schema.workflow_node_attempts a WHERE a.execution_id = ANY (gone);
    DELETE FROM :schema.workflow_actions a WHERE a.execution_id = ANY (gone);
    DELETE FROM :schema.workflow_node_logs l WHERE l.execution_id = ANY (gone);
    DELETE FROM :schema.step_progress p WHERE p.execution_id = ANY (gone);
    DELETE FROM :schema.workflow_execution_events e WHERE e.execution_id = ANY (gone);
    IF is_archived THEN
        DELETE FROM :schema.archived_params p WHERE p.id = ANY (gone);
        DELETE FROM :schema.archived_steps s WHERE s.execution_id = ANY (gone);
        DELETE FROM :schema.archived_attempts a WHERE a.execution_id = ANY (gone);
        DELETE FROM :schema.archived_actions a WHERE a.execution_id = ANY (gone);
        DELETE FROM :schema.archived_events e WHERE e.execution_id = ANY (gone);
    END IF;
    DELETE FROM :schema.dismissals d WHERE d.execution_id = ANY (gone);
    DELETE FROM :schema.signals s WHERE s.execution_id = ANY (gone);
    DELETE FROM :schema.execution_labels l WHERE l.execution_id = ANY (gone);
    DELETE FROM :schema.idempotency_keys k USING unnest(gone, owners, keys) r (id, workspace_id, key)
    WHERE k.workspace_id = r.workspace_id AND k.key = r.key AND k.execution_id = r.id;
    PERFORM :schema.note_child_ends(gone) WHERE gone IS NOT NULL AND EXISTS (SELECT 1 FROM :schema.child_steps);
    IF gone IS NOT NULL THEN
        PERFORM :schema.record_act(actor, why, 'purge', coalesce(subject, ids[1]::text), NULL, NULL, cardinality(gone));
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (gone) THEN 'changed' ELSE 'refused' END, coalesce(q.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id;
END
$$;
