-- Wakes the scheduler when the transaction commits; however many times it is called, the server sends one notification. A transaction with
-- a notification cannot be prepared (two-phase commit): SET LOCAL weir.notify = 'off' leaves it out, and the scheduler finds the news by
-- polling. It also finds them so while the server's queue of notifications is half full. Any role can listen in a transaction that does not
-- end, and so keep the queue from being emptied. At a full queue the commit of each transaction with a notification would fail.
-- Callers: every function that inserts into news, but not the assignment.
CREATE OR REPLACE FUNCTION :schema.notify_news() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pg_catalog.current_setting('weir.notify', true) IS DISTINCT FROM 'off' AND pg_catalog.pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_catalog.pg_notify(:'schema', 'news');
    END IF;
END
$$;
