-- Why labels cannot be those of a request or a definition, with the messages of the library (src/store/labels.c); NULL = they can.
-- Caller: request_problem().
CREATE OR REPLACE FUNCTION :schema.labels_problem(labels jsonb, OUT message text, OUT hint text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pair record;
BEGIN
    IF jsonb_typeof(labels) <> 'object' THEN
        message := 'labels are not a JSON object';
        hint := 'for example {"customer-tier": "gold"}';
        RETURN;
    END IF;
    IF (SELECT count(*) FROM jsonb_object_keys(labels)) > 16 THEN
        message := format('%s labels are more than the 16 of an execution', (SELECT count(*) FROM jsonb_object_keys(labels)));
        RETURN;
    END IF;
    FOR pair IN SELECT e.key, e.value, e.value #>> '{}' AS content FROM jsonb_each(labels) e LOOP
        IF pair.key !~ '^[a-z0-9_.-]{1,64}\Z' THEN
            message := format('"%s" is not the name of a label', left(pair.key, 80));
            hint := 'a name has 1 to 64 of a-z, 0-9, _, - and .';
            RETURN;
        ELSIF jsonb_typeof(pair.value) <> 'string' OR octet_length(pair.content) NOT BETWEEN 1 AND 255
              OR pair.content ~ '[\x01-\x1f\x7f]' THEN
            message := format('the value of the label %s is %s', pair.key,
                              CASE WHEN jsonb_typeof(pair.value) <> 'string' THEN 'not a text'
                                   WHEN pair.content = '' THEN 'empty' WHEN octet_length(pair.content) > 255 THEN 'too long'
                                   ELSE 'a text with a control character' END);
            hint := 'a value is a text of 1 to 255 bytes';
            RETURN;
        END IF;
    END LOOP;
END
$$;
