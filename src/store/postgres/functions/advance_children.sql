-- The duty of children (store/children.h), a part of it in one transaction.
--   notes   of the outbox that are taken at most.
--   ends    of children in them after which no further note is taken. The last one may have more.
--   starts  children that are enqueued at most, and that are cancelled.
-- Returns how many were started and cancelled, and how many waits are over. again: more can be done at once. waits: notes are left of
-- rows that another transaction has locked. faults, fault: how many steps were left out because of altered rows, and the last one's error.
--
-- 1. The oldest notes are taken. Two nodes that do this at once take different ones.
-- 2. Each step that they name is looked at, in the order of their keys, so that two nodes do not wait for each other.
-- 3. A fault of one step undoes all of them, and they are worked on once more, each in a subtransaction of its own. These are too many
--    for a call without a fault.
-- Locks: the notes, then those of advance_child_step() for each step. Caller: advance_children (queries/children.sql).
CREATE OR REPLACE FUNCTION :schema.advance_children(notes bigint, ends bigint, starts bigint, OUT started bigint,
                                                    OUT cancelled bigint, OUT settled bigint, OUT again boolean, OUT waits boolean,
                                                    OUT faults bigint, OUT fault text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    parents uuid[];
    steps text[];
    positions integer[]; -- a place of the three arrays is one end, or a note without ends
    are_left boolean; -- further notes
    touched record;
    tried bigint := 0;
    plan_work_most constant integer := 1000; -- CHILD_PLAN_BATCH in queue/limits.h
    planned bigint := 0;
    part record;
    left_out bigint;
BEGIN
    WITH oldest AS MATERIALIZED (
        SELECT o.id, coalesce(cardinality(o.positions), 0) AS ends FROM :schema.child_notes o ORDER BY o.id LIMIT notes
        FOR UPDATE SKIP LOCKED
    ), chosen AS MATERIALIZED (
        SELECT c.id FROM (SELECT o.id, sum(o.ends) OVER (ORDER BY o.id) - o.ends AS ends_before FROM oldest o) c
        WHERE c.ends_before < ends
    ), taken AS (
        DELETE FROM :schema.child_notes n WHERE n.id = ANY (ARRAY(SELECT c.id FROM chosen c))
        RETURNING n.parent_id, n.step, n.positions
    )
    SELECT array_agg(t.parent_id), array_agg(t.step), array_agg(p.n),
           (SELECT count(*) FROM oldest) = notes OR (SELECT count(*) FROM oldest) > (SELECT count(*) FROM chosen)
    INTO parents, steps, positions, are_left
    FROM taken t LEFT JOIN LATERAL unnest(t.positions) p (n) ON true;
    FOR attempt IN 1..2 LOOP
        started := 0; cancelled := 0; settled := 0; again := false; waits := false; faults := 0; tried := 0; planned := 0; left_out := 0;
        BEGIN
            FOR touched IN
                SELECT t.parent_id, t.step, array_agg(t.position) FILTER (WHERE t.position IS NOT NULL) AS positions, count(*) AS places
                FROM unnest(parents, steps, positions) t (parent_id, step, position)
                GROUP BY t.parent_id, t.step ORDER BY t.parent_id, t.step
            LOOP
                SELECT a.* INTO part
                FROM :schema.advance_child_apart(now_us, touched.parent_id, touched.step, touched.positions, (starts - tried)::integer,
                                                 (starts - cancelled)::integer, planned < plan_work_most, NOT waits, attempt = 2) a;
                started := started + part.started;
                tried := tried + part.tried;
                planned := planned + part.planned;
                cancelled := cancelled + part.cancelled;
                settled := settled + part.settled;
                again := again OR part.again;
                waits := waits OR part.waits;
                faults := faults + (part.fault IS NOT NULL)::integer;
                fault := coalesce(part.fault, fault);
                left_out := left_out + CASE WHEN part.fault IS NOT NULL THEN touched.places ELSE 0 END;
            END LOOP;
            EXIT;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR raise_exception THEN
            IF attempt = 2 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
    again := again OR (are_left AND left_out < cardinality(parents));
END
$$;
