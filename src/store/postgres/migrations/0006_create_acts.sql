-- Acts on one execution, for any language: as `weir cancel`, `weir retry` and `weir release`. They lock the execution's lane and
-- its workspace until the caller's transaction ends, so commit soon: nothing of that workspace starts meanwhile.

-- What is refused, in the words of the library.
CREATE FUNCTION :schema.refuse_act(execution_id uuid, state text, why text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF state = 'gone' THEN
        PERFORM :schema.refuse('execution_not_found', format('there is no execution %s', execution_id),
                               'weir list shows what there is; ended ones are removed after the retention time');
    END IF;
    PERFORM :schema.refuse('illegal_state', format('execution %s is %s: %s', execution_id, state, why), NULL);
END
$$;

-- The nodes of the execution's group look at once.
CREATE FUNCTION :schema.notify_group_of(execution_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.notify_work(g.name) FROM :schema.workflow_execution_queue q
    JOIN :schema.executor_groups g ON g.id = (q.lane_id >> 32)::integer WHERE q.id = execution_id;
END
$$;

-- A waiting execution never starts; a running one is stopped by its node, soon.
CREATE FUNCTION :schema.cancel(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    SELECT a.outcome, a.detail INTO act FROM :schema.cancel_items(ARRAY[execution_id], session_user, reason) a;
    IF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail, 'it has ended and cannot be cancelled');
    END IF;
    PERFORM :schema.notify_group_of(execution_id);
END
$$;

-- One that waits for its time or backs off starts now.
CREATE FUNCTION :schema.release(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    SELECT a.outcome, a.detail INTO act FROM :schema.release_items(ARRAY[execution_id], session_user, reason) a;
    IF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
                                   CASE WHEN act.detail IN ('PENDING', 'CLAIMED', 'DISPATCHED')
                                        THEN 'only one that waits for a time can be released'
                                        ELSE 'it has ended; weir retry runs it again' END);
    END IF;
    PERFORM :schema.notify_group_of(execution_id);
END
$$;

-- Enqueues a FAILED or CANCELLED one again, as a new execution whose id is returned; the ended one stays as it is.
CREATE FUNCTION :schema.retry(execution_id uuid, reason text DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id constant uuid := :schema.make_id(:schema.store_time(), 0);
    act    record;
BEGIN
    SELECT a.outcome, a.detail INTO act FROM :schema.retry_items(ARRAY[execution_id], ARRAY[new_id], session_user, reason) a;
    IF act.outcome = 'retried' THEN
        PERFORM :schema.refuse('conflict', format('execution %s is retried: it was retried already, as %s', execution_id, act.detail),
                               NULL);
    ELSIF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
                                   CASE WHEN act.detail = 'COMPLETED' THEN 'only a FAILED or CANCELLED one can be retried'
                                        ELSE 'it has not ended' END);
    END IF;
    PERFORM :schema.notify_group_of(new_id);
    RETURN new_id;
END
$$;

REVOKE ALL ON FUNCTION :schema.cancel(uuid, text), :schema.release(uuid, text), :schema.retry(uuid, text) FROM PUBLIC;
