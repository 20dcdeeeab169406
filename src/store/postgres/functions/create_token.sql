-- Makes a token. names NULL: it has all workspaces; expires 0: never; body_bytes 0: a body may be as large as the server takes it.
-- requests 0: any number of requests per second.
-- Returns 'ok' and the id; the same name and hash again is the same token. Otherwise nothing was changed: 'conflict' (a live token
-- has the name), 'invalid_argument' (the expiry is over), 'illegal_state' (there are `most` tokens), 'workspace_not_found' (unknown =
-- its name).
-- Locks: the table tokens SHARE ROW EXCLUSIVE, so that `most` is exact. Caller: create_token (queries/tokens.sql).
CREATE OR REPLACE FUNCTION :schema.create_token(token_name text, token_hash bytea, token_role text, names text[], expires bigint,
                                                most integer, actor text, why text, body_bytes bigint DEFAULT 0,
                                                requests bigint DEFAULT 0,
                                                OUT status text, OUT id bigint, OUT unknown text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_us constant bigint := :schema.store_time();
    old    record;
BEGIN
    LOCK TABLE :schema.tokens IN SHARE ROW EXCLUSIVE MODE;
    SELECT t.id, t.hash INTO old FROM :schema.tokens t WHERE t.name = token_name AND t.revoked_at IS NULL;
    unknown := (SELECT u.name FROM unnest(names) WITH ORDINALITY u (name, place)
                WHERE NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = u.name) ORDER BY u.place LIMIT 1);
    IF old.id IS NOT NULL THEN
        status := CASE WHEN old.hash = token_hash THEN 'ok' ELSE 'conflict' END;
        id := old.id;
    ELSIF expires <> 0 AND expires <= now_us THEN
        status := 'invalid_argument';
    ELSIF (SELECT count(*) FROM :schema.tokens t WHERE t.revoked_at IS NULL) >= most THEN
        status := 'illegal_state';
    ELSIF unknown IS NOT NULL AND (token_name NOT LIKE 'user:%'
                                   OR NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = ANY (names))) THEN
        status := 'workspace_not_found';
    ELSE
        INSERT INTO :schema.tokens AS t (name, hash, role, workspaces, created_at, created_by, expires_at, max_body_bytes,
                                          rate)
        VALUES (token_name, token_hash, token_role,
                CASE WHEN names IS NOT NULL THEN ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.name = ANY (names)) END,
                now_us, coalesce(actor, ''), nullif(expires, 0), nullif(body_bytes, 0), nullif(requests, 0))
        RETURNING t.id INTO id;
        PERFORM :schema.record_act(actor, why, 'token create', token_name, NULL, :schema.setting_of('token', token_name, NULL), 0);
        status := 'ok';
    END IF;
END
$$;
