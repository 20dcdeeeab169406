-- How many rows of each type and status Riven's queue has: first one row with those that have not ended, then the ended
-- ones. The type of a workflow's execution is the id of its definition; other jobs have a type of their own.
-- $1 unused, $2 microseconds since 1970 or 0.
WITH counted AS (
  SELECT CASE WHEN coalesce(c.row ->> 'job_type', 'WORKFLOW_EXECUTION') = 'WORKFLOW_EXECUTION'
      THEN c.row ->> 'workflow_definition_id' ELSE c.row ->> 'job_type' END AS type,
    q.status::text AS state, count(*) AS rows
    FROM :schema.:table q CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(q) AS row) c
    WHERE $1 IS NULL AND ($2 = 0 OR q.created_at >= pg_catalog.to_timestamp($2 / 1000000.0))
    GROUP BY 1, 2)
SELECT NULL::text, NULL::text, coalesce(sum(c.rows), 0)::bigint FROM counted c
  WHERE (c.state IN ('COMPLETED', 'FAILED')) IS NOT TRUE
UNION ALL
(SELECT c.type, c.state, c.rows FROM counted c WHERE c.state IN ('COMPLETED', 'FAILED')
  ORDER BY c.rows DESC, c.type LIMIT 1000);
