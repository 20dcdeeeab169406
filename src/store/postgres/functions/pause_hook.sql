-- Pauses a hook or resumes it. Returns 'ok' or 'not_found'. Locks: its row. Caller: pause_hook (queries/hooks.sql).
CREATE OR REPLACE FUNCTION :schema.pause_hook(hook_name text, is_paused boolean, actor text, why text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before jsonb;
BEGIN
    PERFORM 1 FROM :schema.hooks h WHERE h.name = hook_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    before := :schema.setting_of('hook', hook_name, NULL);
    UPDATE :schema.hooks h SET paused = is_paused WHERE h.name = hook_name;
    PERFORM :schema.record_act(actor, why, CASE WHEN is_paused THEN 'hook pause' ELSE 'hook resume' END, hook_name, before,
                               :schema.setting_of('hook', hook_name, NULL), 0);
    RETURN 'ok';
END
$$;
