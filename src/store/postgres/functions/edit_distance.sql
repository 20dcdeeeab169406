-- Edits of one letter between two names, where a swap counts one; more than `most` when there are more. Caller: nearest().
CREATE OR REPLACE FUNCTION :schema.edit_distance(a text, b text, most integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    older integer[];
    last  integer[];
    now   integer[];
    best  integer;
    least_of_row integer;
BEGIN
    -- A common beginning and end need no edit. Generated names often differ in few letters.
    WHILE a <> '' AND left(a, 1) = left(b, 1) LOOP
        a := substr(a, 2);
        b := substr(b, 2);
    END LOOP;
    WHILE a <> '' AND right(a, 1) = right(b, 1) LOOP
        a := left(a, -1);
        b := left(b, -1);
    END LOOP;
    IF abs(length(a) - length(b)) > most THEN
        RETURN most + 1;
    END IF;
    last := ARRAY(SELECT generate_series(0, length(b)));
    FOR i IN 1 .. length(a) LOOP
        now := ARRAY[i];
        least_of_row := i;
        FOR j IN 1 .. length(b) LOOP
            best := least(last[j] + CASE WHEN substr(a, i, 1) = substr(b, j, 1) THEN 0 ELSE 1 END, last[j + 1] + 1, now[j] + 1);
            IF i > 1 AND j > 1 AND substr(a, i, 1) = substr(b, j - 1, 1) AND substr(a, i - 1, 1) = substr(b, j, 1) THEN
                best := least(best, older[j - 1] + 1);
            END IF;
            now := now || best;
            least_of_row := least(least_of_row, best);
        END LOOP;
        -- A swap reaches over one row, so it alone may be less than the least of two rows.
        IF least_of_row > most + 1 THEN
            RETURN most + 1;
        END IF;
        older := last;
        last := now;
    END LOOP;
    RETURN last[length(b) + 1];
END
$$;
