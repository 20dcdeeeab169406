-- An act of an operator takes room away (a pause, a smaller limit, a node that is drained): news of kind 7 without a node. At its commit
-- it waits for the round that assigns at this moment, and the next round waits for the commit and reads the act. So nothing is assigned
-- once the commit has returned. A heartbeat does not wait: its news has a node.
-- A transaction that is prepared (two-phase commit) does not wait: until it is resolved no round would go on.
-- Locks: the table act_gate EXCLUSIVE, to the end of the commit; refuse_acts_since() has it in ROW SHARE. Not a row, which a transaction
-- of REPEATABLE READ cannot lock after a change, and not an advisory lock, which any role can take. By the owner's rights: a role that may
-- act by a function need have none on the table. Trigger of news, at the commit.
CREATE OR REPLACE FUNCTION :schema.await_rounds() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (current_query() ~* 'prepare\s+transaction') IS NOT TRUE THEN -- NULL at the commit of a statement of the extended protocol
        LOCK TABLE :schema.act_gate IN EXCLUSIVE MODE;
    END IF;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION :schema.await_rounds() FROM PUBLIC;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t
                   JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
                   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = :'schema' AND c.relname = 'news' AND t.tgname = 'act_awaits_rounds') THEN
        CREATE CONSTRAINT TRIGGER act_awaits_rounds AFTER INSERT ON :schema.news DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.kind = 7 AND NEW.node_id = 0) EXECUTE FUNCTION :schema.await_rounds();
    END IF;
END
$$;
