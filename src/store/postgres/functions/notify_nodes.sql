-- Wakes these nodes when the transaction commits: something in their inbox, or a cancel of one of their executions. See notify_news().
-- Callers: assign_items(), cancel_items(), deliver_signal(), put_signal(), schedule_lone(), wake_steps().
CREATE OR REPLACE FUNCTION :schema.notify_nodes(node_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pg_catalog.current_setting('weir.notify', true) IS DISTINCT FROM 'off' AND pg_catalog.pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_catalog.pg_notify(:'schema', 'node:' || n.id) FROM (SELECT DISTINCT pg_catalog.unnest(node_ids) AS id) n WHERE n.id > 0;
    END IF;
END
$$;
