-- The instances of nFlow that have not ended, with their current state variables: of each key the row of the last action.
-- $1 and $2 as in nflow_states.sql, $3 bytes of the columns, $4 bytes of the variables at most.
DECLARE weir_import NO SCROLL CURSOR FOR
SELECT pg_catalog.left(w.id::text, 300),
  CASE WHEN octet_length(c.columns) <= $3 THEN c.columns END,
  CASE WHEN v.bytes <= $4 THEN
    (SELECT pg_catalog.json_object_agg(s.state_key, s.state_value)::text FROM
      (SELECT DISTINCT ON (state_key) state_key, state_value::text FROM :schema.nflow_workflow_state
         WHERE workflow_id = w.id AND state_key IS NOT NULL ORDER BY state_key, action_id DESC) s) END,
  v.bytes
FROM :schema.nflow_workflow w
CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(w)::text AS columns) c
CROSS JOIN LATERAL
  (SELECT coalesce(sum(octet_length(s.state_key) + coalesce(octet_length(s.state_value), 0)), 0)::bigint AS bytes FROM
    (SELECT DISTINCT ON (state_key) state_key::text, state_value::text FROM :schema.nflow_workflow_state
       WHERE workflow_id = w.id AND state_key IS NOT NULL ORDER BY state_key, action_id DESC) s) v
WHERE w.status::text IS DISTINCT FROM 'finished'
  AND ($1 IS NULL OR w.executor_group::text = $1)
  AND ($2 = 0 OR w.created >= pg_catalog.to_timestamp($2 / 1000000.0))
ORDER BY w.id;
