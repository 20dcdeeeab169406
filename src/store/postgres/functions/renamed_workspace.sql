-- The present name of the workspace that was last renamed from old_name, by the record of acts; NULL: there is none. A role that is limited
-- to workspaces gets the names of its own ones alone. Index: audit_by_subject. Callers: hint_with_nearest(), renamed_workspace
-- (queries/settings.sql).
CREATE OR REPLACE FUNCTION :schema.renamed_workspace(old_name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.name
    FROM (SELECT (a.after ->> 'id')::integer AS id FROM :schema.audit a
          WHERE a.subject = old_name AND a.act = 'workspace rename' ORDER BY a.seq DESC LIMIT 1) r
         JOIN :schema.workspaces w ON w.id = r.id
         CROSS JOIN (SELECT :schema.own_workspaces() AS ids OFFSET 0) o
    WHERE o.ids IS NULL OR w.id = ANY (o.ids)
$$;
