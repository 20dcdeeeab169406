-- The same as start_children(), which it calls, for children with keys.
--
-- 1. One transaction at a time enqueues them. So two parents cannot begin to wait for each other at once, and two duties that insert
--    keys in different orders do not wait for each other.
-- 2. A key or an execution that a transaction of another program holds is waited for only shortly. Then one child is tried alone.
--    is_locked: the step is to be tried again later.
--
-- Locks: the table child_gate SHARE UPDATE EXCLUSIVE, then those of start_children(). Caller: start_more_children().
CREATE OR REPLACE FUNCTION :schema.start_keyed_children(held :schema.child_steps, most integer, OUT started integer, OUT ended integer,
                                                        OUT completed integer, OUT is_locked boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off SET lock_timeout = '100ms' AS $$
BEGIN
    is_locked := false;
    FOR attempt IN 1..2 LOOP
        BEGIN
            LOCK TABLE :schema.child_gate IN SHARE UPDATE EXCLUSIVE MODE;
            SELECT s.* INTO started, ended, completed FROM :schema.start_children(held, CASE attempt WHEN 1 THEN most ELSE 1 END) s;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            started := 0; ended := 0; completed := 0; is_locked := true;
        END;
        EXIT WHEN most <= 1;
    END LOOP;
END
$$;
