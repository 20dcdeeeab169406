-- The least number of children of a plan of which one call of the duty makes rows. It is a function, so that a test can make parts of
-- few children.
-- Locks: none. Caller: make_children().
CREATE OR REPLACE FUNCTION :schema.child_part() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 500 -- CHILD_STARTS_BATCH in queue/limits.h
$$;
