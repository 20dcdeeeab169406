-- Whether a JSON text can be stored, checked as the library checks it (src/base/json.c): NULL, or the text of the problem. jsonb alone
-- would not do: it drops a key that occurs twice and accepts numbers that no node can read. Params are an object.
-- Callers: request_problem(), signal(), update().
CREATE OR REPLACE FUNCTION :schema.json_problem(json_text text, is_params boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    has_nul  constant boolean := strpos(json_text, $text$\u0000$text$) > 0;
    document jsonb;
    bare     text; -- without its strings
    kind     text;
    number   text;
BEGIN
    BEGIN
        -- An escaped NUL is JSON, but not in a key; jsonb cannot hold it: a character without a meaning stands for it.
        document := CASE WHEN has_nul
                         THEN regexp_replace(json_text, $text$(?<!\\)((?:\\\\)*)\\u0000$text$, $text$\1\\uF8FF$text$, 'g')
                         ELSE json_text END::jsonb;
    EXCEPTION
        WHEN statement_too_complex THEN
            RETURN 'JSON is nested deeper than 64 levels';
        WHEN data_exception THEN
            GET STACKED DIAGNOSTICS kind = PG_EXCEPTION_DETAIL;
            RETURN 'not JSON: ' || left(coalesce(nullif(kind, ''), SQLERRM), 200);
    END;
    kind := jsonb_typeof(document);
    IF is_params AND kind <> 'object' THEN
        kind := CASE WHEN kind = 'number' AND btrim(json_text, E' \t\n\r') ~ '^-?[0-9]+$' THEN 'integer' ELSE kind END;
        RETURN format('%s %s, not an object', CASE WHEN left(kind, 1) IN ('a', 'i', 'o') THEN 'an' ELSE 'a' END, kind);
    END IF;
    IF jsonb_path_exists(document, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")') THEN
        RETURN 'JSON is nested deeper than 64 levels';
    END IF;
    IF has_nul AND EXISTS (
        SELECT 1 FROM jsonb_path_query(document, 'strict $.** ? (@.type() == "object").keyvalue().key') k(key)
        WHERE strpos(k.key #>> '{}', E'\uF8FF') > 0) THEN
        RETURN 'not JSON: an object has a key with a NUL';
    END IF;
    bare := regexp_replace(json_text, $text$"(?:[^"\\]|\\.)*"$text$, '', 'g');
    IF length(bare) - length(replace(bare, ':', ''))
       <> (SELECT count(*) FROM jsonb_path_query(document, 'strict $.** ? (@.type() == "object").*.type()')) THEN
        RETURN 'not JSON: an object has a key twice';
    END IF;
    IF bare ~ '[0-9]{19}|[eE][+]?[0-9]{3}' THEN
        FOR number IN SELECT m[1] FROM regexp_matches(bare, '(-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?)', 'g') m LOOP
            IF number ~ '^-?[0-9]+$' AND number::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                RETURN 'not JSON: too big an integer';
            ELSIF abs(number::numeric) >= 1.7976931348623158079e308 THEN
                RETURN 'not JSON: too big a number';
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END
$$;
