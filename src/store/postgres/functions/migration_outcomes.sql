-- How the executions of a set stand to a version of their workflows. Deleted versions do not count. A row per id, with the state of the
-- execution ('gone' = there is none) and the outcome:
--   'changed'     it can go on with the version
--   'steps'       the version does not fit its steps on record. `steps` has them with the reasons
--   'ended', 'held'
--   'same'        it has the version
--   'no_version', 'temporal'
--
-- A step fits when it is in the same part of the definition, of the same kind, and behind none that has not ended. A failure
-- counts as much there, and a wait for others is for the same.
-- An execution has begun to end with a step of a later part, or with one that was cancelled. No step before it and no timeout may be new
-- then.
-- retimed: the timeout of the execution is another. Each definition is taken apart once.
-- Locks: none. Callers: migrate_items(), migration_outcomes (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.migration_outcomes(ids uuid[], to_version integer)
RETURNS TABLE (item uuid, outcome text, detail text, steps text, to_id bigint, to_demand integer, from_version integer,
               retimed boolean)
LANGUAGE sql STABLE SET enable_hashjoin = on SET enable_mergejoin = on AS $$
    WITH chosen AS MATERIALIZED (
        SELECT u.id, coalesce(q.status, h.status, 'gone') AS state, d.id AS from_id, d.version AS from_version, t.id AS to_id,
               t.demand AS to_demand,
               CASE WHEN q.id IS NULL THEN 'ended' WHEN (q.lane_id >> 31) & 1 = 1 THEN 'temporal' WHEN q.phase = 2 THEN 'held'
                    WHEN t.id IS NULL THEN 'no_version' WHEN t.demand & 1 = 1 THEN 'temporal' WHEN t.id = d.id THEN 'same'
                    ELSE 'changed' END AS verdict
        FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
        LEFT JOIN :schema.workflow_executions h ON h.id = u.id
        LEFT JOIN :schema.workflow_definitions d ON d.id = q.definition_id
        LEFT JOIN :schema.workflow_definitions t ON t.name = d.name AND t.workspace_id = d.workspace_id AND t.version = to_version
                                                    AND t.state <> 2
    ), timeouts AS MATERIALIZED (
        SELECT d.id, d.definition::json ->> 'timeout' AS timeout
        FROM (SELECT c.from_id FROM chosen c WHERE c.verdict = 'changed'
              UNION SELECT c.to_id FROM chosen c WHERE c.verdict = 'changed') u (id)
        JOIN :schema.workflow_definitions d ON d.id = u.id
    ), judged AS MATERIALIZED (
        SELECT c.*, o.timeout IS DISTINCT FROM n.timeout AS retimed
        FROM chosen c LEFT JOIN timeouts o ON o.id = c.from_id LEFT JOIN timeouts n ON n.id = c.to_id
    ), recorded AS MATERIALIZED (
        SELECT c.id, c.from_id, c.to_id, c.retimed, r.step, r.status, r.signal, r.variables
        FROM judged c JOIN :schema.workflow_node_executions r ON r.execution_id = c.id WHERE c.verdict = 'changed'
    ), parts AS MATERIALIZED (
        SELECT d.id, p.step, p.section, p.body, p.kind
        FROM (SELECT r.from_id FROM recorded r UNION SELECT r.to_id FROM recorded r) u (id)
        JOIN :schema.workflow_definitions d ON d.id = u.id CROSS JOIN LATERAL :schema.migration_parts(d.definition::json) p
    ), late AS MATERIALIZED (
        SELECT DISTINCT r.id, r.from_id, r.to_id, r.retimed
        FROM recorded r LEFT JOIN parts o ON o.id = r.from_id AND o.step = r.step
        WHERE r.status = 'CANCELLED' OR o.section IN ('undo', 'on_failure', 'finally')
    ), problems AS MATERIALIZED (
        SELECT r.id, r.step, CASE
            WHEN n.step IS NULL THEN 'is not there'
            WHEN n.section IS DISTINCT FROM o.section THEN 'is in another part'
            WHEN n.kind IS DISTINCT FROM o.kind THEN 'is of another kind'
            WHEN n.kind = 'states' THEN :schema.states_misfit(o.body, n.body, convert_from(r.variables, 'UTF8')::json, r.signal)
            WHEN r.status = 'FAILED' AND n.body ->> 'continue_on_error' IS DISTINCT FROM o.body ->> 'continue_on_error'
                THEN 'has another continue_on_error'
            WHEN r.status = 'WAITING' AND r.signal IS NOT NULL AND CASE
                WHEN n.kind = 'http' THEN n.body -> 'http' -> 'callback' IS NULL
                ELSE (n.body -> n.kind)::text IS DISTINCT FROM (o.body -> o.kind)::text END THEN 'waits for something else'
            WHEN EXISTS (SELECT 1 FROM json_array_elements_text(coalesce(n.body -> 'needs', '[]')) x (need)
                         WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_node_executions f
                                           WHERE f.execution_id = r.id AND f.step = x.need
                                             AND f.status IN ('COMPLETED', 'SKIPPED', 'FAILED', 'CANCELLED')))
                THEN 'needs a step that has not ended' END AS problem
        FROM recorded r LEFT JOIN parts o ON o.id = r.from_id AND o.step = r.step
        LEFT JOIN parts n ON n.id = r.to_id AND n.step = r.step
        UNION ALL
        SELECT l.id, n.step, 'is new, and the execution has begun to end' FROM late l JOIN parts n ON n.id = l.to_id
        WHERE n.section <> 'finally'
          AND NOT EXISTS (SELECT 1 FROM parts o WHERE o.id = l.from_id AND o.step = n.step AND o.section = n.section)
        UNION ALL
        SELECT l.id, 'timeout', 'is another, and the execution has begun to end' FROM late l WHERE l.retimed
    ), placed AS (
        SELECT p.id, p.step || ' ' || p.problem AS text,
               row_number() OVER (PARTITION BY p.id ORDER BY p.step COLLATE "C", p.problem) AS place
        FROM problems p WHERE p.problem IS NOT NULL
    ), misfits AS MATERIALIZED (
        SELECT p.id, string_agg(p.text, ', ' ORDER BY p.place) FILTER (WHERE p.place <= 5)
                     || CASE WHEN count(*) > 5 THEN ', and ' || (count(*) - 5) || ' more' ELSE '' END AS steps
        FROM placed p GROUP BY p.id
    )
    SELECT c.id, CASE WHEN m.id IS NULL THEN c.verdict ELSE 'steps' END, c.state, m.steps, c.to_id, c.to_demand, c.from_version, c.retimed
    FROM judged c LEFT JOIN misfits m ON m.id = c.id
$$;
