-- The actor of an act that a caller in SQL orders: the role of the session, and the setting weir.actor if it is set. A program with one
-- role sets it to its own user: SET LOCAL weir.actor = 'ada@example.com'. At most 255 characters.
-- Callers: the functions for callers in SQL.
CREATE OR REPLACE FUNCTION :schema.actor() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT left(session_user || coalesce(' for ' || nullif(regexp_replace(current_setting('weir.actor', true), '[[:cntrl:]]', '?', 'g'),
                                                           ''), ''), 255)
$$;
