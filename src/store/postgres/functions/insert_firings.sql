-- Inserts a firing of a schedule for the next part of its workspaces, as its overlap policy allows, and counts the others in the schedule.
-- It notes the last workspace of the part on the schedule when others are left.
--   at, triggered  the due time, or the time of a trigger
--   chosen         of these workspaces only, all in one part; NULL = of all
--   refused_only   of those in which this time was refused
--   key            workspaces with an execution of this key have the time already; NULL = none has
--   behind         the last workspace that has its firing; 0 = none
--   nth            of the times of this call, for the order of the ids
--   part           firings of a part
--   most           firings that may wait in a workspace
-- Returns the number of firings, and of those that were left out or replaced. Also the number of workspaces that have a firing or an
-- execution of the time already, and of those that are left. The caller has locked the row of the schedule, so that two calls see each
-- other's firings. Callers: advance_schedule(), trigger_schedule().
CREATE OR REPLACE FUNCTION :schema.insert_firings(of_schedule integer, at bigint, triggered boolean, chosen integer[], refused_only boolean,
                                                  key text, behind integer, nth bigint, part integer, most integer,
                                                  OUT firings bigint, OUT skipped bigint, OUT existing bigint, OUT rest bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    s        record;
    targets  integer[];
    workspaces bigint;
    until    integer := 2147483647;
    replaced bigint := 0;
    now_us   constant bigint := :schema.store_time();
BEGIN
    SELECT x.overlap, x.workspaces, x.plan, x.expands_at INTO s FROM :schema.schedules x WHERE x.id = of_schedule;
    IF chosen IS NOT NULL THEN
        targets := chosen;
    ELSIF refused_only THEN
        targets := ARRAY(SELECT r.workspace_id FROM :schema.schedule_refusals r JOIN :schema.workspaces w ON w.id = r.workspace_id
                         WHERE r.schedule_id = of_schedule AND r.due_at = at AND r.workspace_id > behind
                           AND CASE WHEN s.workspaces IS NULL THEN w.plan = s.plan ELSE w.id = ANY (s.workspaces) END
                         ORDER BY r.workspace_id LIMIT part);
    ELSIF s.workspaces IS NULL THEN
        targets := ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.plan = s.plan AND w.id > behind ORDER BY w.id LIMIT part);
    ELSE
        targets := ARRAY(SELECT u.id FROM unnest(s.workspaces) u (id) WHERE u.id > behind);
    END IF;
    rest := 0;
    IF cardinality(targets) = part THEN
        until := targets[part];
        rest := CASE WHEN refused_only
                     THEN (SELECT count(*) FROM :schema.schedule_refusals r
                           WHERE r.schedule_id = of_schedule AND r.due_at = at AND r.workspace_id > until)
                     ELSE (SELECT count(*) FROM :schema.workspaces w WHERE w.plan = s.plan AND w.id > until) END;
    END IF;
    workspaces := cardinality(targets);
    targets := ARRAY(SELECT t.id FROM unnest(targets) t (id)
                     WHERE NOT EXISTS (SELECT 1 FROM :schema.schedule_firings f
                                       WHERE f.schedule_id = of_schedule AND f.workspace_id = t.id AND f.due_at = at)
                       AND NOT EXISTS (SELECT 1 FROM :schema.idempotency_keys k
                                       WHERE k.workspace_id = t.id AND k.key = insert_firings.key));
    existing := workspaces - cardinality(targets);
    DELETE FROM :schema.schedule_firings f
    WHERE f.schedule_id = of_schedule AND f.workspace_id > behind AND f.workspace_id <= until AND f.execution_id IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = f.workspace_id);
    PERFORM :schema.adopt_firings(of_schedule, behind, until);
    IF s.overlap = 'cancel_running' THEN
        DELETE FROM :schema.schedule_firings f
        WHERE f.schedule_id = of_schedule AND f.workspace_id = ANY (targets) AND f.execution_id IS NULL AND f.due_at < at;
        GET DIAGNOSTICS replaced = ROW_COUNT;
    END IF;
    INSERT INTO :schema.schedule_firings (schedule_id, workspace_id, due_at, is_triggered, created_at, planned_id)
    SELECT of_schedule, t.workspace_id, at, triggered, now_us, :schema.make_id(now_us, nth)
    FROM unnest(targets) t (workspace_id)
    WHERE CASE s.overlap
          WHEN 'skip' THEN NOT EXISTS (SELECT 1 FROM :schema.schedule_firings f
                                       WHERE f.schedule_id = of_schedule AND f.workspace_id = t.workspace_id
                                         AND (f.execution_id IS NULL
                                              OR EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = f.execution_id)))
          WHEN 'queue_one' THEN NOT EXISTS (SELECT 1 FROM :schema.schedule_firings f
                                            WHERE f.schedule_id = of_schedule AND f.workspace_id = t.workspace_id
                                              AND f.execution_id IS NULL)
          WHEN 'queue_all' THEN (SELECT count(*) FROM :schema.schedule_firings f
                                 WHERE f.schedule_id = of_schedule AND f.workspace_id = t.workspace_id AND f.execution_id IS NULL) < most
          ELSE NOT EXISTS (SELECT 1 FROM :schema.schedule_firings f
                           WHERE f.schedule_id = of_schedule AND f.workspace_id = t.workspace_id AND f.due_at > at
                             AND (f.execution_id IS NULL
                                  OR EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = f.execution_id))) END
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS firings = ROW_COUNT;
    skipped := cardinality(targets) - firings + replaced;
    IF skipped > 0 OR rest > 0 OR s.expands_at IS NOT NULL THEN
        UPDATE :schema.schedules x
        SET skipped = x.skipped + insert_firings.skipped, expands_at = CASE WHEN rest > 0 THEN at END,
            expanded_to = CASE WHEN rest > 0 THEN until END, expands_triggered = rest > 0 AND triggered,
            expands_refused = rest > 0 AND refused_only
        WHERE x.id = of_schedule;
    END IF;
END
$$;
