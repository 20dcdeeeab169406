-- A text as one argument of a shell's command line (base/shell_quote.h). standard_conforming_strings is fixed: with another setting the
-- server would read the backslashes differently. Caller: enqueue_answer().
CREATE OR REPLACE FUNCTION :schema.shell_quote(word text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
    SELECT CASE WHEN word ~ '^[-a-zA-Z0-9_./:,@%+][-a-zA-Z0-9_./:,@%+=]*$' THEN word
                ELSE '''' || replace(word, '''', '''\''''') || '''' END
$$;
