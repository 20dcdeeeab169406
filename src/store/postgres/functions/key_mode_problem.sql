-- Whether the mode of a key is well-formed: status NULL, or the refusal with the message of the library (src/store/enqueue_request.c).
-- Caller: try_enqueue().
CREATE OR REPLACE FUNCTION :schema.key_mode_problem(key_mode text, idempotency_key text, run_at timestamptz, debounce interval,
                                                    debounce_max interval, OUT status text, OUT message text, OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known constant text[] := ARRAY['once', 'replace', 'debounce', 'one_active'];
    mode  constant text := coalesce(key_mode, 'once');
BEGIN
    IF mode <> ALL (known) THEN
        message := format('"%s" is not a mode of a key', left(mode, 100));
        hint := coalesce('did you mean "' || :schema.nearest(mode, known) || '"?', 'the modes are once, replace, debounce and one_active');
    ELSIF mode <> 'once' AND idempotency_key IS NULL THEN
        message := format('key_mode %s needs an idempotency key', mode);
        hint := 'give the key that the executions have in common';
    ELSIF mode <> 'debounce' AND (debounce IS NOT NULL OR debounce_max IS NOT NULL) THEN
        message := format('key_mode %s takes no debounce window', mode);
        hint := 'give key_mode debounce, or leave debounce and debounce_max out';
    ELSIF mode = 'debounce' AND (debounce IS NULL OR debounce NOT BETWEEN interval '1 millisecond' AND interval '1 day') THEN
        message := 'key_mode debounce needs a window from 1ms to 1d';
        hint := 'for example debounce 5s';
    ELSIF mode = 'debounce' AND (debounce_max < debounce OR debounce_max > interval '10 days') THEN
        message := 'debounce_max is shorter than the window, or longer than 10d';
        hint := 'leave it out for 10 windows';
    ELSIF mode = 'debounce' AND run_at IS NOT NULL THEN
        message := 'key_mode debounce takes no run_at: its window is the start time';
        hint := 'leave run_at out';
    END IF;
    IF message IS NOT NULL THEN
        status := 'invalid_argument';
    END IF;
END
$$;
