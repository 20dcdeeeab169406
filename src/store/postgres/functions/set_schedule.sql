-- Makes or changes a schedule. Returns 'ok' and whether it is new. Otherwise nothing was changed:
--   'illegal_state'         there are `most` schedules, or the definition `unknown` owns this one
--   'conflict'              the name is taken, by the definition `unknown`, or by a user
--   'workspace_not_found', 'plan_not_found'   unknown = its name
-- A schedule that has all of this already is not written. With the same times an overdue time
-- stays due; one that is too late, of a wrong clock, does not stay. With the policies but queue_all one firing of a workspace may wait.
--   cron_text, zone_name           or every_us
--   in_workspaces                  names; or NULL and of_plan
--   of_owner                       the workspace of the definition that sets it, 0 = it is of all workspaces; NULL = a user sets it
-- Locks: the table schedules SHARE ROW EXCLUSIVE, so that `most` is exact. Functions that change a schedule lock the table before its row,
-- so that none of them holds a row for which this one waits with the table. Callers: set_schedule (queries/schedules.sql),
-- set_definition_schedules().
CREATE OR REPLACE FUNCTION :schema.set_schedule(schedule_name text, cron_text text, zone_name text, every_us bigint, jitter_us bigint,
                                                from_us bigint, until_us bigint, starts text, with_params text, in_workspaces text[],
                                                of_plan text, overlap_policy text, catch_up_us bigint, due_us bigint, most integer,
                                                actor text, why text, of_owner integer DEFAULT NULL, OUT status text, OUT is_new boolean,
                                                OUT unknown text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    before  jsonb;
    ids     integer[];
    present record;
    owned   text; -- by this definition
    is_same boolean;
BEGIN
    LOCK TABLE :schema.schedules IN SHARE ROW EXCLUSIVE MODE;
    before := :schema.setting_of('schedule', schedule_name, NULL);
    is_new := before IS NULL;
    SELECT s.definition_owner, s.workflow INTO present FROM :schema.schedules s WHERE s.name = schedule_name;
    owned := :schema.definition_of_schedule(present.definition_owner, present.workflow);
    IF of_owner IS NULL AND owned IS NOT NULL THEN
        status := 'illegal_state';
    ELSIF of_owner IS NOT NULL AND NOT is_new
          AND (owned IS NULL OR (present.definition_owner, present.workflow) IS DISTINCT FROM (of_owner, starts)) THEN
        status := 'conflict';
    END IF;
    IF status IS NOT NULL THEN
        unknown := owned;
        RETURN;
    END IF;
    unknown := (SELECT u.name FROM unnest(in_workspaces) WITH ORDINALITY u (name, place)
                WHERE NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = u.name) ORDER BY u.place LIMIT 1);
    IF is_new AND (SELECT count(*) FROM :schema.schedules) >= most THEN
        status := 'illegal_state';
    ELSIF unknown IS NOT NULL THEN
        status := 'workspace_not_found';
    ELSIF of_plan IS NOT NULL AND NOT EXISTS (SELECT 1 FROM :schema.plans p WHERE p.name = of_plan) THEN
        status := 'plan_not_found';
        unknown := of_plan;
    ELSE
        IF of_plan IS NULL THEN
            ids := ARRAY(SELECT w.id FROM unnest(in_workspaces) WITH ORDINALITY u (name, place)
                         JOIN :schema.workspaces w ON w.name = u.name ORDER BY u.place);
        END IF;
        DELETE FROM :schema.schedule_refusals r USING :schema.schedules x -- of workspaces that it has no longer
        WHERE x.name = schedule_name AND r.schedule_id = x.id
          AND CASE WHEN of_plan IS NULL THEN r.workspace_id <> ALL (ids)
                   ELSE NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = r.workspace_id AND w.plan = of_plan) END;
        is_same := EXISTS (
            SELECT 1 FROM :schema.schedules s
            WHERE s.name = schedule_name AND s.retry_at IS NULL
              AND (s.cron, s.zone, s.every, s.jitter, s.starts_at, s.ends_at, s.workflow, s.params, s.workspaces, s.plan, s.overlap,
                   s.catch_up, s.definition_owner)
                  IS NOT DISTINCT FROM (cron_text, zone_name, nullif(every_us, 0), jitter_us, nullif(from_us, 0), nullif(until_us, 0),
                                        starts, with_params, ids, of_plan, overlap_policy, catch_up_us, of_owner)
              AND (s.due_at <= due_us OR due_us = 9223372036854775807)
              AND (s.refused_at IS NULL OR EXISTS (SELECT 1 FROM :schema.schedule_refusals x WHERE x.schedule_id = s.id)));
        IF NOT is_same THEN
            INSERT INTO :schema.schedules AS s (name, cron, zone, every, jitter, starts_at, ends_at, workflow, params, workspaces, plan,
                                                overlap, catch_up, created_at, due_at, definition_owner)
            VALUES (schedule_name, cron_text, zone_name, nullif(every_us, 0), jitter_us, nullif(from_us, 0), nullif(until_us, 0), starts,
                    with_params, ids, of_plan, overlap_policy, catch_up_us, :schema.store_time(), nullif(due_us, 9223372036854775807),
                    of_owner)
            ON CONFLICT (name) DO UPDATE
            SET cron = excluded.cron, zone = excluded.zone, every = excluded.every, jitter = excluded.jitter,
                starts_at = excluded.starts_at, ends_at = excluded.ends_at, workflow = excluded.workflow, params = excluded.params,
                workspaces = excluded.workspaces, plan = excluded.plan, overlap = excluded.overlap, catch_up = excluded.catch_up,
                definition_owner = excluded.definition_owner,
                (refused_at, error_code, error, retry_at)
                    = (SELECT CASE WHEN r.held THEN s.refused_at END, CASE WHEN r.held THEN s.error_code END,
                              CASE WHEN r.held THEN s.error END, NULL::bigint
                       FROM (SELECT EXISTS (SELECT 1 FROM :schema.schedule_refusals x WHERE x.schedule_id = s.id) AS held) r),
                due_at = CASE WHEN s.due_at IS NULL
                                   OR (s.cron, s.zone, s.every, s.starts_at, s.ends_at)
                                      IS DISTINCT FROM (excluded.cron, excluded.zone, excluded.every, excluded.starts_at, excluded.ends_at)
                              THEN excluded.due_at ELSE least(s.due_at, excluded.due_at) END;
            PERFORM :schema.remove_firings_beside_one(schedule_name);
            INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 8, '{}');
            PERFORM :schema.notify_news();
        END IF;
        PERFORM :schema.record_act(actor, why, 'schedule set', schedule_name, before, a.after, 0)
        FROM (SELECT :schema.setting_of('schedule', schedule_name, NULL) AS after OFFSET 0) a
        WHERE of_owner IS NULL OR before IS DISTINCT FROM a.after; -- a file is published again and again
        status := 'ok';
    END IF;
END
$$;
