-- The record of acts: the one place of this driver that inserts into `audit`. An act without an actor is a node's, and is not recorded.
-- before, after: the setting as setting_of() returns it, NULL = there is or was none. affected: executions.
-- The server plans a function in SQL anew for each transaction, and this one in plpgsql once for a session.
-- Locks: none. Callers: all functions and queries of acts.
CREATE OR REPLACE FUNCTION :schema.record_act(actor text, why text, act text, subject text, before jsonb, after jsonb, affected bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF actor IS NOT NULL THEN
        INSERT INTO :schema.audit (at, actor, act, subject, reason, before, after, affected)
        VALUES (:schema.store_time(), actor, act, subject, why, before, after, coalesce(affected, 0));
    END IF;
END
$$;
