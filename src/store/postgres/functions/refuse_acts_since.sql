-- At the end of a round that assigns: if an act is committed by now that the snapshot does not contain, the transaction is undone
-- (SQLSTATE WR013). An act that comes later waits for the end of this transaction, see await_rounds().
-- Locks: the table act_gate in ROW SHARE. Every act takes it last too, so they cannot wait for each other. Callers: schedule(),
-- schedule_lone().
CREATE OR REPLACE FUNCTION :schema.refuse_acts_since(old pg_snapshot) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    LOCK TABLE :schema.act_gate IN ROW SHARE MODE;
    IF :schema.has_acts_since(old) THEN
        RAISE EXCEPTION 'an act was committed during the round' USING ERRCODE = 'WR013';
    END IF;
END
$$;
