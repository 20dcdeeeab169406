-- The tokens of the HTTP API. The names of workspaces are those of the ids that still exist.

-- name: find_token
SELECT t.id, t.hash FROM tokens t WHERE t.name = ?1 AND t.revoked_at IS NULL;

-- name: count_tokens
SELECT count(*) FROM tokens WHERE revoked_at IS NULL;

-- name: has_tokens
SELECT EXISTS (SELECT 1 FROM tokens);

-- ?1 name, ?2 hash, ?3 role, ?4 JSON array of ids or NULL, ?5 time, ?6 actor, ?7 expiry; 0 = never, ?8 most bytes of a body; 0 = any,
-- ?9 requests per second; 0 = any
-- name: insert_token
INSERT INTO tokens (name, hash, role, workspaces, created_at, created_by, expires_at, max_body_bytes, rate)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, nullif(?7, 0), nullif(?8, 0), nullif(?9, 0)) RETURNING id;

-- The name of a session that has ended is free. Its row stays until the next sign-in. ?1 name, ?2 time
-- name: retire_session
UPDATE tokens SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL AND expires_at <= ?2;

-- Sessions that have ended, of all people, so that their rows do not pile up. The newest row of the table stays: a store that has had a
-- token needs one. ?1 time, ?2 at most
-- name: drop_ended_sessions
DELETE FROM tokens WHERE id IN (
    SELECT t.id FROM tokens t
    WHERE t.name LIKE 'user:%' AND (t.revoked_at IS NOT NULL OR t.expires_at <= ?1) AND t.id < (SELECT max(n.id) FROM tokens n)
    ORDER BY t.id LIMIT ?2);

-- The name of the token to revoke. ?1 name, or id in digits
-- name: find_token_name
SELECT t.name FROM tokens t WHERE t.revoked_at IS NULL AND (t.name = ?1 OR CAST(t.id AS TEXT) = ?1);

-- ?1 name, ?2 time
-- name: revoke_token
UPDATE tokens SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL;

-- name: token_names
SELECT name FROM tokens WHERE revoked_at IS NULL ORDER BY name LIMIT 1000;

-- All that the server may accept. ?1 store time, ?2 limit
-- name: read_tokens
SELECT t.id, t.name, t.hash, t.role,
       CASE WHEN t.workspaces IS NOT NULL
            THEN (SELECT json_group_array(json_array(w.id, w.name)) FROM json_each(t.workspaces) i JOIN workspaces w ON w.id = i.value) END,
       t.expires_at, coalesce(t.max_body_bytes, 0), coalesce(t.rate, 0)
FROM tokens t WHERE t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > ?1) ORDER BY t.id LIMIT ?2;

-- ?1 JSON array of ids, ?2 time, ?3 a use before this time is noted again
-- name: use_tokens
UPDATE tokens SET last_used_at = ?2
WHERE id IN (SELECT i.value FROM json_each(?1) i) AND (last_used_at IS NULL OR last_used_at <= ?3);

-- By id. ?1 name or NULL, ?2 behind this cursor, ?3 limit, ?4 store time
-- name: list_tokens
SELECT t.id, t.name, t.role,
       CASE WHEN t.workspaces IS NOT NULL
            THEN (SELECT json_group_array(w.name) FROM json_each(t.workspaces) i JOIN workspaces w ON w.id = i.value) END AS workspaces,
       CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked' WHEN t.expires_at <= ?4 THEN 'expired' ELSE 'live' END AS state,
       strftime('%Y-%m-%dT%H:%M:%S', t.created_at / 1000000, 'unixepoch') || printf('.%06dZ', t.created_at % 1000000) AS created_at,
       t.created_by,
       strftime('%Y-%m-%dT%H:%M:%S', t.expires_at / 1000000, 'unixepoch') || printf('.%06dZ', t.expires_at % 1000000) AS expires_at,
       strftime('%Y-%m-%dT%H:%M:%S', t.revoked_at / 1000000, 'unixepoch') || printf('.%06dZ', t.revoked_at % 1000000) AS revoked_at,
       strftime('%Y-%m-%dT%H:%M:%S', t.last_used_at / 1000000, 'unixepoch') || printf('.%06dZ', t.last_used_at % 1000000)
           AS last_used_at,
       t.max_body_bytes, t.rate, printf('%020d', t.id) AS cursor_key
FROM tokens t WHERE (?1 IS NULL OR t.name = ?1) AND printf('%020d', t.id) > ?2 ORDER BY t.id LIMIT ?3;
