-- The rows of Riven's queue that have not ended, in the order in which Riven would have claimed them. The input is a column
-- of its own, with a bound of its own. $1 and $2 as in riven_states.sql, $3 bytes of the columns, $4 bytes of the input at
-- most.
DECLARE weir_import NO SCROLL CURSOR FOR
SELECT pg_catalog.left(q.id::text, 300),
  CASE WHEN octet_length(c.columns) <= $3 THEN c.columns END,
  CASE WHEN octet_length(i.input) <= $4 THEN i.input END,
  coalesce(octet_length(i.input), 0)::bigint
FROM :schema.:table q
CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(q) AS row) r
CROSS JOIN LATERAL (SELECT (r.row - 'input' - 'params' - 'last_error')::text AS columns) c
CROSS JOIN LATERAL (SELECT coalesce(r.row -> 'input', r.row -> 'params')::text AS input) i
WHERE (q.status::text IN ('COMPLETED', 'FAILED')) IS NOT TRUE
  AND $1 IS NULL AND ($2 = 0 OR q.created_at >= pg_catalog.to_timestamp($2 / 1000000.0))
ORDER BY q.created_at, q.id;
