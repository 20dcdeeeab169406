-- Revokes the live token of this name, or of this id in digits. Returns 'ok' or 'not_found'.
-- Locks: its row. Caller: revoke_token (queries/tokens.sql).
CREATE OR REPLACE FUNCTION :schema.revoke_token(name_or_id text, actor text, why text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_token record;
    before      jsonb;
BEGIN
    SELECT t.id, t.name INTO found_token FROM :schema.tokens t
    WHERE t.revoked_at IS NULL AND (t.name = name_or_id OR t.id::text = name_or_id) FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    before := :schema.setting_of('token', found_token.name, NULL);
    UPDATE :schema.tokens t SET revoked_at = :schema.store_time() WHERE t.id = found_token.id;
    PERFORM :schema.record_act(actor, why, 'token revoke', found_token.name, before, NULL, 0);
    RETURN 'ok';
END
$$;
