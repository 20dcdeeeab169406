-- The names of those of the workspaces that exist, a JSON array; NULL for NULL. Callers: setting_of(), queries/tokens.sql.
CREATE OR REPLACE FUNCTION :schema.workspace_names(ids integer[]) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN ids IS NOT NULL THEN
        (SELECT coalesce(jsonb_agg(w.name ORDER BY array_position(ids, w.id)), '[]') FROM :schema.workspaces w WHERE w.id = ANY (ids))
    END
$$;
