-- The inbox of a node: its assignments behind a position, and the state of the scheduler's role. Changes nothing.
--   reader                 the node
--   after_fence, after_id  the position: the last item that the node has read
--   most                   at most so many items, in the order of their fences and ids
-- Returns a row per item, and a last row without one. That has cancel_requested (a cancel or a signal waits for the node), and the columns
-- of role_state(). handed_over of an item: it may run under another claim that was lost. assigned_before: also without a run; a record
-- PUT_BACK leaves its code.
--
-- The claim sets lead to the items: the index of `claims` skips the sets before the position.
-- Locks: none. Caller: postgres_inbox().
CREATE OR REPLACE FUNCTION :schema.inbox(reader bigint, after_fence bigint, after_id uuid, most integer)
RETURNS TABLE (id uuid, fence bigint, workspace_id bigint, definition_id bigint, params bytea, traceparent text,
               starts_refused integer, deferrals integer, interruptions integer, handed_over boolean, cancel_requested boolean,
               created_at bigint, run_at bigint, dispatched_at bigint, claimed_at bigint, priority integer,
               weight integer, epoch bigint, scheduler_id bigint, scheduler text, since bigint, expires_at bigint, now_us bigint,
               is_free boolean, takeovers_hour bigint, renewals bigint, lease bigint, server text,
               assigned_before boolean, interruptions_at_park integer, woken_at bigint, is_suspect boolean,
               lost_a_node boolean, signals bigint, workspace text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT h.id, h.fence, h.workspace_id::bigint, h.definition_id,
           CASE WHEN h.has_params THEN coalesce((SELECT p.params FROM :schema.execution_params p WHERE p.id = h.id), '') END, h.traceparent,
           h.starts_refused, h.deferrals, h.interruptions,
           h.dispatched_at IS NOT NULL AND h.interruptions_at_park = 0 OR h.interruptions > h.interruptions_at_park,
           h.cancel_at IS NOT NULL,
           h.created_at, h.run_at, h.dispatched_at, h.claimed_at, h.priority::integer,
           w.weight,
           NULL::bigint, NULL::bigint, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, NULL::bigint,
           NULL::bigint, NULL::bigint, NULL::text,
           h.starts_refused + h.deferrals + h.interruptions > 0 OR h.error_code IS NOT NULL, h.interruptions_at_park,
           h.woken_at, h.suspicion > 1 AND :schema.is_suspect(h.id, h.suspicion, h.steps_ended),
           h.handovers > 0, h.signals, w.name
    FROM (SELECT * FROM :schema.held_items q
          WHERE q.claim_node = reader AND q.claim_fence >= after_fence AND (q.claim_fence, q.last_id) > (after_fence, after_id)
            AND (q.fence, q.id) > (after_fence, after_id)
          ORDER BY q.fence, q.id LIMIT most) h
         LEFT JOIN :schema.workspaces w ON w.id = h.workspace_id
    ORDER BY h.fence, h.id;
    SELECT r.epoch, r.node_id, r.node, r.since, r.expires_at, r.now_us, r.is_free, r.takeovers_hour, r.renewals, r.lease, r.server
    INTO epoch, scheduler_id, scheduler, since, expires_at, now_us, is_free, takeovers_hour, renewals, lease, server
    FROM :schema.role_state() r;
    cancel_requested := :schema.requests_wait(reader);
    RETURN NEXT;
END
$$;
