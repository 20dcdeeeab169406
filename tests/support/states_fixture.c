#include "support/states_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "support/test.h"

int64_t states_now_us;
struct engine_fixture states_engine;
void (*states_play)(struct weir_call *call);
int states_calls;

static int64_t read_now(void *context)
{
    (void)context;
    return states_now_us;
}

static void act(struct weir_call *call, void *context)
{
    (void)context;
    states_calls++;
    states_play(call);
}

void states_open(void)
{
    static const struct clock clock = {.wall_us = read_now, .boot_us = read_now};
    static const struct weir_handler handlers[] = {{"act", act, NULL}};
    states_now_us = STATES_BEGIN_US;
    states_calls = 0;
    engine_fixture_open_stepped(&states_engine,
                                &(struct in_process_options){.clock = &clock, .handlers = handlers, .handler_count = 1});
}

void states_close(void)
{
    engine_fixture_close(&states_engine);
}

int64_t states_run(void)
{
    int64_t next_us = 0;
    for (int i = 0; i < 20; i++) {
        next_us = engine_step(states_engine.engine);
    }
    return next_us;
}

void states_start(const char *definition)
{
    engine_fixture_start(&states_engine, 1, definition, "{\"amount\":5}");
    (void)states_run();
}

size_t states_count(enum report_kind kind)
{
    return recorder_count(&states_engine.recorder, kind, NULL, NULL, -1);
}

const struct report *states_wait(size_t n)
{
    return recorder_wait(&states_engine.recorder, REPORT_STEP, NULL, "state", STEP_WAITING, n);
}

const struct report *states_end(enum end_state end)
{
    return engine_fixture_expect_end(&states_engine, 1, end);
}

const char *states_action(const struct report *report, const char *key)
{
    static char text[4096];
    json_t *root = NULL;
    assert_non_null(report->step.action);
    assert_int_equal(json_read(report->step.action, strlen(report->step.action), &root, NULL), WEIR_OK);
    json_t *value = json_object_get(root, key);
    char *dump = value == NULL || json_is_null(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    text_copy(text, sizeof text, dump == NULL ? "" : dump);
    free(dump);
    json_decref(root);
    return text;
}

void states_claim_again(const char *definition, const struct report *record, const struct signal_record *signal,
                        int64_t due_in_us)
{
    struct step_record step = {.attempt = record->step.attempt,
                               .state = record->step.state,
                               .exit_code = -1,
                               .due_in_us = due_in_us,
                               .failures = record->step.failures,
                               .variables = record->step.variables};
    text_copy(step.step, sizeof step.step, "state");
    text_copy(step.signal, sizeof step.signal, record->step.signal);
    text_copy(step.error_code, sizeof step.error_code, record->step.error_code);
    struct engine_start again = engine_fixture_start_of(1, definition, "{}");
    again.fence = 2;
    again.steps = &step;
    again.step_count = 1;
    again.signals = signal;
    again.signal_count = signal == NULL ? 0 : 1;
    again.signals_seen = signal == NULL ? 0 : signal->seq;
    engine_fixture_start_with(&states_engine, &again);
    (void)states_run();
}
