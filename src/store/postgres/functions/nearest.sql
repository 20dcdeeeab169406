-- The nearest of the names, the first of several, when it is near enough to be meant (src/base/text.c); else NULL.
-- Callers: hint_with_nearest(), read_request(), key_mode_problem().
CREATE OR REPLACE FUNCTION :schema.nearest(word text, names text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most     integer := least(length(word) / 3 + 1, length(word) - 1);
    distance integer;
    found_one text;
    name     text;
BEGIN
    IF length(word) > 63 THEN
        RETURN NULL;
    END IF;
    FOREACH name IN ARRAY names LOOP
        IF length(name) BETWEEN 1 AND 63 AND abs(length(name) - length(word)) <= most THEN
            distance := :schema.edit_distance(word, name, most);
            IF distance <= most THEN
                found_one := name;
                most := distance - 1;
            END IF;
        END IF;
    END LOOP;
    RETURN found_one;
END
$$;
