-- Makes or changes a workspace. new_plan NULL = leave (free for a new one); new_limit, new_pending 0 = leave, -1 = that of the
-- plan, and of new_pending -2 = no limit; new_paused NULL = leave. Returns the workspace before and after, and 'ok',
-- 'plan_not_found' or 'workspace_not_found'.
-- Once a change is committed, every assignment follows it: the scheduler's assignment is refused while the scheduler
-- has not read this news (kind 7).
-- Locks: the plan FOR SHARE, then the workspace. Callers: pause_workspace(), resume_workspace(), change_workspace (queries/settings.sql).
CREATE OR REPLACE FUNCTION :schema.change_workspace(workspace text, new_plan text, new_limit bigint, new_paused boolean, make boolean,
                                                    new_pending integer DEFAULT 0, actor text DEFAULT NULL, why text DEFAULT NULL,
                                                    OUT status text, OUT before jsonb, OUT after jsonb)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old    record;
    chosen record;
    own_pending integer;
BEGIN
    LOOP
        SELECT w.id, w.plan INTO old FROM :schema.workspaces w WHERE w.name = workspace;
        SELECT p.name, p.max_concurrent, p.weight, p.max_pending INTO chosen
        FROM :schema.plans p WHERE p.name = coalesce(new_plan, old.plan, 'free') FOR SHARE;
        IF NOT FOUND THEN
            status := 'plan_not_found';
            RETURN;
        ELSIF old.id IS NULL AND NOT make THEN
            status := 'workspace_not_found';
            RETURN;
        ELSIF old.id IS NULL THEN
            INSERT INTO :schema.workspaces (name, plan, max_concurrent, slots_max, max_pending, pending_max, weight, paused, created_at)
            VALUES (workspace, chosen.name, CASE WHEN new_limit > 0 THEN new_limit END,
                    CASE WHEN new_limit > 0 THEN new_limit ELSE chosen.max_concurrent END,
                    CASE WHEN new_pending > 0 THEN new_pending WHEN new_pending = -2 THEN 0 END,
                    CASE WHEN new_pending > 0 THEN new_pending WHEN new_pending = -2 THEN 0 ELSE chosen.max_pending END, chosen.weight,
                    coalesce(new_paused, false), :schema.store_time())
            ON CONFLICT (name) DO NOTHING;
            EXIT WHEN FOUND;
        ELSE
            PERFORM 1 FROM :schema.workspaces w WHERE w.id = old.id FOR NO KEY UPDATE;
            before := :schema.setting_of('workspace', workspace, NULL);
            SELECT CASE new_pending WHEN 0 THEN w.max_pending WHEN -1 THEN NULL WHEN -2 THEN 0 ELSE new_pending END INTO own_pending
            FROM :schema.workspaces w WHERE w.id = old.id;
            UPDATE :schema.workspaces w
            SET plan = chosen.name, weight = chosen.weight, paused = coalesce(new_paused, w.paused),
                max_concurrent = CASE new_limit WHEN 0 THEN w.max_concurrent WHEN -1 THEN NULL ELSE new_limit END,
                slots_max = coalesce(CASE new_limit WHEN 0 THEN w.max_concurrent WHEN -1 THEN NULL ELSE new_limit END,
                                     chosen.max_concurrent),
                max_pending = own_pending, pending_max = coalesce(own_pending, chosen.max_pending)
            WHERE w.id = old.id AND w.plan = old.plan AND w.name = workspace;
            EXIT WHEN FOUND;
        END IF;
        -- Another transaction has made it, renamed it, or moved it to another plan: read it again.
    END LOOP;
    IF old.id IS NOT NULL THEN
        INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 7, ARRAY[old.id]);
        PERFORM :schema.notify_news();
    END IF;
    after := :schema.setting_of('workspace', workspace, NULL);
    PERFORM :schema.record_act(actor, why, 'workspace ' || CASE new_paused WHEN true THEN 'pause' WHEN false THEN 'resume' ELSE 'set' END,
                               workspace, before, after, 0);
    status := 'ok';
END
$$;
