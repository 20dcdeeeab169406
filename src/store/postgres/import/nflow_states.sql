-- How many instances of each type and status nFlow has: first one row with those that have not ended, then the ended ones.
-- $1 executor group or NULL, $2 microseconds since 1970 or 0.
WITH counted AS (
  SELECT w.type::text AS type, w.status::text AS state, count(*) AS rows FROM :schema.nflow_workflow w
    WHERE ($1 IS NULL OR w.executor_group::text = $1)
      AND ($2 = 0 OR w.created >= pg_catalog.to_timestamp($2 / 1000000.0))
    GROUP BY 1, 2)
SELECT NULL::text, NULL::text, coalesce(sum(c.rows), 0)::bigint FROM counted c WHERE c.state IS DISTINCT FROM 'finished'
UNION ALL
(SELECT c.type, c.state, c.rows FROM counted c WHERE c.state = 'finished' ORDER BY c.rows DESC, c.type LIMIT 1000);
