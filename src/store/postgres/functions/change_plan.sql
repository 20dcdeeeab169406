-- Makes or changes a plan, and the limits of its workspaces. new_limit 0, new_weight 0 = leave as it is. Returns 'ok' or 'plan_not_found':
-- a new plan needs its limit. Locks: the plan, then its workspaces by ascending id. Caller: change_plan (queries/settings.sql).
CREATE OR REPLACE FUNCTION :schema.change_plan(plan_name text, new_limit bigint, new_weight integer) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    workspace_ids integer[];
BEGIN
    IF new_limit = 0 THEN
        UPDATE :schema.plans p SET weight = coalesce(nullif(new_weight, 0), p.weight) WHERE p.name = plan_name;
        IF NOT FOUND THEN
            RETURN 'plan_not_found';
        END IF;
    ELSE
        INSERT INTO :schema.plans AS p (name, max_concurrent, weight) VALUES (plan_name, new_limit, greatest(new_weight, 1))
        ON CONFLICT (name) DO UPDATE
        SET max_concurrent = excluded.max_concurrent, weight = coalesce(nullif(new_weight, 0), p.weight);
    END IF;
    workspace_ids := ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.plan = plan_name ORDER BY w.id FOR NO KEY UPDATE);
    IF cardinality(workspace_ids) > 0 THEN
        UPDATE :schema.workspaces w
        SET slots_max = coalesce(w.max_concurrent, p.max_concurrent), weight = p.weight
        FROM :schema.plans p WHERE p.name = plan_name AND w.id = ANY (workspace_ids);
        INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 7, NULL);
        PERFORM :schema.notify_news();
    END IF;
    RETURN 'ok';
END
$$;
