-- Removes a hook and its waiting events. Events of transactions that commit later are dropped by drop_hook_events (queries/hooks.sql).
-- Returns 'ok' or 'not_found'. Locks: the removed rows. Caller: delete_hook (queries/hooks.sql).
CREATE OR REPLACE FUNCTION :schema.delete_hook(hook_name text, actor text, why text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    removed_id integer;
    before     jsonb;
BEGIN
    SELECT h.id INTO removed_id FROM :schema.hooks h WHERE h.name = hook_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    before := :schema.setting_of('hook', hook_name, NULL);
    DELETE FROM :schema.hook_outbox o WHERE o.hook_id = removed_id;
    DELETE FROM :schema.hooks h WHERE h.id = removed_id;
    PERFORM :schema.record_act(actor, why, 'hook delete', hook_name, before, NULL, 0);
    RETURN 'ok';
END
$$;
