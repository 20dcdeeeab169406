-- Ends pending items of lanes without a workspace: FAILED, code workspace_not_found; at most `most`. Rows that another
-- transaction holds stay for a later round.
-- Returns these items and the ids that they have in place of a workspace.
-- Locks: the items. Caller: schedule(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.fail_orphans(lanes bigint[], most integer) RETURNS TABLE (item uuid, workspace bigint)
LANGUAGE plpgsql AS $$
DECLARE
    ids uuid[];
    workspaces bigint[];
BEGIN
    SELECT array_agg(o.id), array_agg(o.workspace_id) INTO ids, workspaces
    FROM (
        SELECT q.id, q.workspace_id FROM :schema.workflow_execution_queue q
        WHERE q.due_at IS NULL AND q.phase = 0 AND q.lane_id = ANY (lanes)
          AND NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = q.workspace_id)
        LIMIT most FOR UPDATE OF q SKIP LOCKED
    ) o;
    PERFORM :schema.move_to_history(ids, 'FAILED', 'workspace_not_found', 'its workspace does not exist', :schema.store_time())
    WHERE ids IS NOT NULL;
    RETURN QUERY SELECT o.id, o.workspace_id FROM unnest(ids, workspaces) o (id, workspace_id);
END
$$;
