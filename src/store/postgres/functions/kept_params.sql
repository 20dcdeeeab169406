-- The params of an execution, `params` unless it is archived. Not a function of SQL, which would be inlined: a caller that meets no
-- archived execution takes no lock on the archive. Caller: enqueue_answer().
CREATE OR REPLACE FUNCTION :schema.kept_params(execution_id uuid, archived boolean, params bytea) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF archived THEN
        RETURN (SELECT a.params FROM :schema.archived_params a WHERE a.id = execution_id);
    END IF;
    RETURN params;
END
$$;
