-- The record of acts.

-- An act of the program: a migration, before or after which the functions may be missing. $1 actor, $2 act, $3 subject, $4 reason,
-- $5 detail or NULL
-- name: note_act
INSERT INTO :schema.audit (at, actor, act, subject, reason, after)
VALUES ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $1, $2, $3, $4,
        CASE WHEN $5 IS NOT NULL THEN jsonb_build_object('detail', $5) END);

-- Newest first. $1 subject or NULL, $2 below this number, $3 limit, $4 since, $5 part of the actor or NULL, $6 act or NULL
-- name: list_audit
SELECT :schema.rfc3339(a.at) AS at, a.actor, a.act, a.subject, a.reason, a.before, a.after, a.affected, a.seq::text AS cursor_key
FROM :schema.audit a
WHERE ($1 IS NULL OR a.subject = $1) AND a.seq < $2 AND a.at >= $4 AND ($5 IS NULL OR strpos(a.actor, $5) > 0)
  AND ($6 IS NULL OR a.act = $6 OR starts_with(a.act, $6 || ' '))
ORDER BY a.seq DESC LIMIT $3;

-- The newest pause of a subject stays, because `status` names its actor. Another node that removes the same rows is not awaited.
-- $1 before this time, $2 limit. Index: audit_by_time.
-- name: purge_audit
DELETE FROM :schema.audit d USING (
    SELECT a.seq FROM :schema.audit a
    WHERE a.at < $1
      AND NOT (a.act IN ('pause', 'workspace pause')
               AND NOT EXISTS (SELECT 1 FROM :schema.audit b WHERE b.subject = a.subject AND b.seq > a.seq
                                                               AND b.act IN ('pause', 'resume', 'workspace pause', 'workspace resume')))
    ORDER BY a.at LIMIT $2 FOR UPDATE SKIP LOCKED
) old
WHERE d.seq = old.seq;
