-- Trigger of news, at the commit of an act: news of kind 7 without a node. An act takes capacity away (a pause, a smaller limit, a drain).
--
-- 1. The commit of an act locks act_gate EXCLUSIVE. A round that assigns at this moment has it in ROW SHARE (refuse_acts_since()), so the
--    commit waits for that round.
-- 2. The next round waits for this commit at its own lock, and then reads the act. So the scheduler assigns nothing once the commit has
--    returned.
--
-- A heartbeat does not wait: its news has a node. A transaction that is prepared (two-phase commit) does not wait either, since no round
-- would go on until it is resolved.
-- The lock is one of a table: a transaction of REPEATABLE READ cannot lock a row after a change of it, and any role can take an advisory
-- lock. The function runs with the rights of the owner, so a role that acts through a function needs none on the table.
-- Locks: the table act_gate EXCLUSIVE, to the end of the commit. Caller: the trigger act_awaits_rounds.
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
