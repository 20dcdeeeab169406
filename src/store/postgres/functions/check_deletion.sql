-- Trigger of deleted_workspaces, at the commit of a deletion: no item of the workspace may be held.
--
-- 1. act_gate is locked EXCLUSIVE: rounds that assign at this moment are awaited, and the next round reads the act (await_rounds()).
-- 2. If an item of the workspace was assigned after remove_workspace() had counted, and perhaps parked since, the commit is refused with
--    40001: the caller repeats its transaction.
--
-- Parked items are counted by the books, because no index leads from a workspace to them.
--
-- A transaction that is prepared is refused: no round may assign until it is resolved, and nothing bounds that time.
-- Locks: the table act_gate EXCLUSIVE, to the end of the commit. Caller: the trigger deletion_is_checked.
CREATE OR REPLACE FUNCTION :schema.check_deletion() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    lanes bigint[];
BEGIN
    IF current_query() ~* 'prepare\s+transaction' THEN
        PERFORM :schema.refuse('illegal_state', 'a transaction that deletes a workspace cannot be prepared', NULL);
    END IF;
    LOCK TABLE :schema.act_gate IN EXCLUSIVE MODE;
    lanes := ARRAY(SELECT a.base | NEW.id FROM :schema.group_lanes a);
    IF EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.due_at IS NULL AND q.lane_id = ANY (lanes) AND q.phase = 2)
       OR (SELECT sum(b.parked) FROM :schema.lane_books b WHERE b.workspace_id = NEW.id) > 0 THEN
        RAISE serialization_failure USING
            MESSAGE = format('an execution of workspace "%s" was assigned while the workspace was deleted', NEW.name),
            HINT = 'repeat the transaction';
    END IF;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION :schema.check_deletion() FROM PUBLIC;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t
                   JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
                   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = :'schema' AND c.relname = 'deleted_workspaces' AND t.tgname = 'deletion_is_checked') THEN
        CREATE CONSTRAINT TRIGGER deletion_is_checked AFTER INSERT ON :schema.deleted_workspaces DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION :schema.check_deletion();
    END IF;
END
$$;
