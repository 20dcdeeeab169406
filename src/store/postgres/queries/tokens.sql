-- The tokens of the HTTP API.

-- $1 name, $2 hash, $3 role, $4 names of workspaces, $5 all workspaces, $6 expiry; 0 = never, $7 most bytes of a body; 0 = any, $8 at most,
-- $9 actor, $10 reason, $11 requests per second; 0 = any
-- name: create_token
SELECT c.status, c.id, c.unknown
FROM :schema.create_token($1, $2, $3, CASE WHEN NOT $5 THEN $4::text[] END, $6, $8, $9, $10, body_bytes => $7, requests => $11) c;

-- The name of a session that has ended is free. Its row stays until the next sign-in. $1 name
-- name: retire_session
UPDATE :schema.tokens t SET revoked_at = n.now_us
FROM (SELECT :schema.store_time() AS now_us OFFSET 0) n
WHERE t.name = $1 AND t.revoked_at IS NULL AND t.expires_at <= n.now_us;

-- Sessions that have ended, of all people, so that their rows do not pile up. The newest row of the table stays: a store that has had a
-- token needs one. $1 at most
-- name: drop_ended_sessions
DELETE FROM :schema.tokens d WHERE d.id IN (
    SELECT t.id FROM :schema.tokens t
    WHERE t.name LIKE 'user:%' AND (t.revoked_at IS NOT NULL OR t.expires_at <= (SELECT :schema.store_time()))
      AND t.id < (SELECT max(n.id) FROM :schema.tokens n)
    ORDER BY t.id LIMIT $1);

-- $1 name or id, $2 actor, $3 reason
-- name: revoke_token
SELECT :schema.revoke_token($1, $2, $3);

-- name: token_names
SELECT name FROM :schema.tokens WHERE revoked_at IS NULL ORDER BY name LIMIT 1000;

-- All that the server may accept, and the store time, which is there without a token as well. $1 limit
-- name: read_tokens
SELECT t.id, t.name, t.hash, t.role,
       CASE WHEN t.workspaces IS NOT NULL
            THEN (SELECT coalesce(jsonb_agg(jsonb_build_array(w.id, w.name)), '[]') FROM :schema.workspaces w
                  WHERE w.id = ANY (t.workspaces))::text END, t.expires_at, n.now_us,
       EXISTS (SELECT 1 FROM :schema.tokens), coalesce(t.max_body_bytes, 0), coalesce(t.rate, 0)
FROM (SELECT :schema.store_time() AS now_us OFFSET 0) n
LEFT JOIN :schema.tokens t ON t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > n.now_us)
ORDER BY t.id LIMIT $1;

-- $1 ids, $2 a use that is this old is noted again
-- name: use_tokens
UPDATE :schema.tokens t SET last_used_at = n.now_us
FROM (SELECT :schema.store_time() AS now_us OFFSET 0) n
WHERE t.id = ANY ($1) AND (t.last_used_at IS NULL OR t.last_used_at <= n.now_us - $2);

-- By id. $1 name or NULL, $2 behind this cursor, $3 limit
-- name: list_tokens
SELECT t.id, t.name, t.role, :schema.workspace_names(t.workspaces) AS workspaces,
       CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked' WHEN t.expires_at <= (SELECT :schema.store_time()) THEN 'expired'
            ELSE 'live' END AS state,
       :schema.rfc3339(t.created_at) AS created_at, t.created_by, :schema.rfc3339(t.expires_at) AS expires_at,
       :schema.rfc3339(t.revoked_at) AS revoked_at, :schema.rfc3339(t.last_used_at) AS last_used_at, t.max_body_bytes,
       t.rate, lpad(t.id::text, 20, '0') AS cursor_key
FROM :schema.tokens t
WHERE ($1 IS NULL OR t.name = $1) AND lpad(t.id::text, 20, '0') COLLATE "C" > $2 ORDER BY t.id LIMIT $3;
