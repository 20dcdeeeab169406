-- Makes or changes a plan, and the limits of its workspaces. new_limit 0, new_weight 0, new_pending 0 = leave as it is; new_pending -2 = no
-- limit. Returns the plan before and after, and 'ok' or 'plan_not_found': a new plan needs its limit.
-- Locks: the plan, then its workspaces by ascending id. Caller: change_plan (queries/settings.sql).
CREATE OR REPLACE FUNCTION :schema.change_plan(plan_name text, new_limit bigint, new_weight integer, new_pending integer DEFAULT 0,
                                               actor text DEFAULT NULL, why text DEFAULT NULL,
                                               OUT status text, OUT before jsonb, OUT after jsonb)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    workspace_ids integer[];
BEGIN
    PERFORM 1 FROM :schema.plans p WHERE p.name = plan_name FOR NO KEY UPDATE;
    before := :schema.setting_of('plan', plan_name, NULL);
    IF new_limit = 0 THEN
        UPDATE :schema.plans p
        SET weight = coalesce(nullif(new_weight, 0), p.weight),
            max_pending = CASE new_pending WHEN 0 THEN p.max_pending WHEN -2 THEN 0 ELSE new_pending END
        WHERE p.name = plan_name;
        IF NOT FOUND THEN
            status := 'plan_not_found';
            RETURN;
        END IF;
    ELSE
        INSERT INTO :schema.plans AS p (name, max_concurrent, weight, max_pending)
        VALUES (plan_name, new_limit, greatest(new_weight, 1), greatest(new_pending, 0))
        ON CONFLICT (name) DO UPDATE
        SET max_concurrent = excluded.max_concurrent, weight = coalesce(nullif(new_weight, 0), p.weight),
            max_pending = CASE new_pending WHEN 0 THEN p.max_pending ELSE excluded.max_pending END;
    END IF;
    workspace_ids := ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.plan = plan_name ORDER BY w.id FOR NO KEY UPDATE);
    IF cardinality(workspace_ids) > 0 THEN
        UPDATE :schema.workspaces w
        SET slots_max = coalesce(w.max_concurrent, p.max_concurrent), weight = p.weight,
            pending_max = coalesce(w.max_pending, p.max_pending)
        FROM :schema.plans p WHERE p.name = plan_name AND w.id = ANY (workspace_ids);
        INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 7, NULL);
        PERFORM :schema.notify_news();
    END IF;
    after := :schema.setting_of('plan', plan_name, NULL);
    PERFORM :schema.record_act(actor, why, 'plan set', plan_name, before, after, 0);
    status := 'ok';
END
$$;
