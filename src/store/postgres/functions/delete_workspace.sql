-- For callers in SQL: deletes a workspace in this transaction, with fail_waiting also what waits, with erase also the history. Answers how
-- many waiting executions were ended. Under another isolation than READ COMMITTED it is refused, because an old snapshot misses executions.
-- Raises workspace_not_found, illegal_state, store_busy, invalid_argument, and at the commit serialization_failure (check_deletion()).
-- Locks: those of remove_workspace() and erase_history().
CREATE OR REPLACE FUNCTION :schema.delete_workspace(workspace text, fail_waiting boolean DEFAULT false, erase boolean DEFAULT false,
                                                    reason text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    batch  constant integer := 1000;
    total  bigint := 0;
    step   record;
    behind uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    PERFORM :schema.check_reason(reason);
    PERFORM :schema.require_workspace(workspace);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM :schema.refuse('illegal_state', 'a workspace is deleted in a transaction of READ COMMITTED only', NULL);
    END IF;
    LOOP
        SELECT r.* INTO step
        FROM :schema.remove_workspace(workspace, coalesce(fail_waiting, false), batch, :schema.actor(), reason, false) r;
        EXIT WHEN step.status = 'workspace_not_found' AND erase;
        IF step.status = 'workspace_not_found' THEN
            PERFORM :schema.refuse_workspace(workspace);
        ELSIF step.status = 'illegal_state' THEN
            PERFORM :schema.refuse(step.status, format('workspace "%s" has %s waiting and %s running executions', workspace, step.waiting,
                                                       step.held),
                                   CASE WHEN step.held > 0 THEN 'pause it, await or cancel the running ones, and delete it again'
                                        ELSE 'await or cancel them, or let the deletion end them (fail_waiting)' END);
        ELSIF step.status <> 'ok' THEN
            PERFORM :schema.refuse(step.status, format('other transactions hold the waiting executions of workspace "%s"', workspace),
                                   'repeat the deletion');
        END IF;
        total := total + step.failed;
        EXIT WHEN NOT step.more;
    END LOOP;
    WHILE erase AND behind IS NOT NULL LOOP
        SELECT e.status, e.last_id INTO step FROM :schema.erase_history(workspace, behind, batch, :schema.actor(), reason) e;
        PERFORM :schema.refuse_workspace(workspace) WHERE step.status <> 'ok';
        behind := step.last_id;
    END LOOP;
    RETURN total;
END
$$;

REVOKE ALL ON FUNCTION :schema.delete_workspace(text, boolean, boolean, text) FROM PUBLIC;
