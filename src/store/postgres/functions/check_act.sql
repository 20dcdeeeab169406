-- Raises a refusal when an act has no id, or its reason is too long. Callers: cancel(), release(), retry(), why().
CREATE OR REPLACE FUNCTION :schema.check_act(execution_id uuid, reason text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF execution_id IS NULL THEN
        PERFORM :schema.refuse('invalid_argument', 'the execution''s id is missing', NULL);
    END IF;
    PERFORM :schema.check_reason(reason);
END
$$;
