-- Raises a refusal: MESSAGE and HINT are those of the library, DETAIL is the name of the status.
-- Callers: every function that refuses a call of a program in SQL.
CREATE OR REPLACE FUNCTION :schema.refuse(status text, message text, hint text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = :schema.sqlstate_of(status), MESSAGE = message, DETAIL = status;
    END IF;
    RAISE EXCEPTION USING ERRCODE = :schema.sqlstate_of(status), MESSAGE = message, DETAIL = status, HINT = hint;
END
$$;
