-- Raises the refusal of a workspace that does not exist or was not named. Callers: require_workspace(), usage(), all functions of acts on a
-- workspace.
CREATE OR REPLACE FUNCTION :schema.refuse_workspace(workspace text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(workspace, '') = '' THEN
        PERFORM :schema.refuse('invalid_argument', 'the workspace''s name is missing', NULL);
    ELSIF octet_length(workspace) > 128 THEN
        PERFORM :schema.refuse('invalid_argument', 'the workspace''s name is too long', 'at most 128 bytes');
    END IF;
    PERFORM :schema.refuse('workspace_not_found', format('there is no workspace "%s"', workspace),
                           :schema.hint_with_nearest('workspace_not_found', workspace, NULL, NULL,
                                                     '`weir workspace list` shows them; `weir workspace set` makes one'));
END
$$;
