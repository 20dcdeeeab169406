-- Raises a refusal when the reason of an act is too long. Callers: check_act(), the functions of acts for callers in SQL.
CREATE OR REPLACE FUNCTION :schema.check_reason(reason text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(reason) > 2048 THEN
        PERFORM :schema.refuse('invalid_argument', 'the reason is too long', 'at most 2048 bytes');
    END IF;
END
$$;
