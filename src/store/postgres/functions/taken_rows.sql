-- The rows of assign_items() for the items of its own node that are not plain: `woken`, with the numbers of `woken`, and `taken`, one for
-- each place of `detailed`. NULL = none. signalled: the places of `woken` that have got signals. The rows are locked, so this function sees
-- each signal that they count; the statement that locked them may not. Locks: none. Caller: assign_items().
CREATE OR REPLACE FUNCTION :schema.taken_rows(ids uuid[], woken bigint[], signalled integer[], detailed integer[])
RETURNS TABLE (tag text, place integer, n1 bigint, n2 bigint, n3 bigint, n4 bigint, n5 bigint, n6 bigint, n7 bigint, n8 bigint,
               n9 bigint, flag boolean, trace text, data bytea, places integer[], plain integer[], list1 bigint[], list2 bigint[],
               list3 bigint[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF woken IS NOT NULL THEN
        RETURN QUERY SELECT 'woken', NULL::integer, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
                            NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, NULL::text, NULL::bytea,
                            ARRAY(SELECT p FROM unnest(signalled) p
                                  WHERE EXISTS (SELECT 1 FROM :schema.signals s
                                                WHERE s.execution_id = ids[p] AND s.consumed_at IS NULL)),
                            NULL::integer[], NULL::bigint[], NULL::bigint[], ARRAY(SELECT unnest(woken));
    END IF;
    IF detailed IS NOT NULL THEN
        RETURN QUERY
        SELECT 'taken', a.place, q.definition_id, q.starts_refused::bigint, q.interruptions::bigint, q.priority::bigint, q.created_at,
               q.run_at, q.claimed_at, q.dispatched_at, q.deferrals::bigint, q.cancel_at IS NOT NULL, q.traceparent,
               CASE WHEN q.has_params THEN coalesce((SELECT p.params FROM :schema.execution_params p WHERE p.id = q.id), '') END,
               NULL::integer[], NULL::integer[], NULL::bigint[],
               CASE WHEN q.interruptions > 0 OR q.signals > 0
                    THEN ARRAY[q.interruptions_at_park,
                               CASE WHEN q.suspicion > 1
                                    THEN :schema.is_suspect(q.id, q.suspicion, q.steps_ended)::integer ELSE 0 END,
                               coalesce(q.woken_at, 0), (q.handovers > 0)::integer, q.signals] END,
               CASE WHEN q.starts_refused + q.deferrals + q.interruptions > 0 OR q.error_code IS NOT NULL THEN ARRAY[0::bigint] END
        FROM unnest(detailed) a (place) JOIN :schema.workflow_execution_queue q ON q.id = ids[a.place];
    END IF;
END
$$;
