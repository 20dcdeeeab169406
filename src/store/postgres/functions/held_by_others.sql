-- Which records of a set cannot be written now, because another transaction holds their item; all places of such an item, so that its
-- records keep their order. Every other item of the set is locked until the end of the transaction, in the order of the ids, without
-- waiting. An item that has ended is held by no transaction. Caller: held_by_others (queries/record.sql).
CREATE OR REPLACE FUNCTION :schema.held_by_others(ids uuid[]) RETURNS SETOF integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    locked uuid[];
BEGIN
    SELECT array_agg(o.id) INTO locked
    FROM (SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids) ORDER BY q.id FOR UPDATE SKIP LOCKED) o;
    RETURN QUERY
    SELECT r.place::integer FROM unnest(ids) WITH ORDINALITY r (id, place)
    WHERE r.id IN (SELECT q.id FROM :schema.workflow_execution_queue q
                   WHERE q.id = ANY (ids) AND (q.id IN (SELECT unnest(locked))) IS NOT TRUE);
END
$$;
