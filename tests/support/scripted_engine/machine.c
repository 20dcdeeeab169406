/* Workflows with states, as the script runs them: one step `state`, whose attempts are the actions (docs/design/states.md).
 *
 *              due, signal        interrupted before        run_us
 *   SLEEPS ----------------> attempt --> WAITS_BEGIN --> IN_STEP --> answer --> WAITS_RESULT --durable--> SLEEPS or parked
 *                               |                                       +-----> ended
 *                               +-- a state without a handler: waits for a person, or ends
 *
 * The machine is the present state and the variables. Each report of the step brings it, and the answer of a handler the
 * action. The next claim reads it from the record of the step. The rules are those of the engine of steps
 * (engine/in_process/step_states.c), without the limit of states in a row. Children are planned where the test gives plans.
 *
 * Answers are drawn; in a calm world no handler fails, and the end follows soon. A handler computes variables from what it
 * was given (struct scripted_variables). So a lost, a repeated or a stale action leaves another number. One thread; reports
 * leave only from inside of engine_step().
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "support/scripted_engine/scripted_internal.h"

#define STEP_OF_STATES "state"
#define SECOND_US MICROSECONDS_PER_SECOND
#define FAILURE_CODE "scripted_failure"
enum {
    SIGNALS_KEPT_MOST_HERE = 256,
    NAMES_MOST = 32,
    SUM_BELOW = 1000003,
    LOOK_AGAIN_US = 1000 * 1000,
    DELAY_LEAST_US = 1000 * 1000,
    DELAY_MOST_US = 20 * 1000 * 1000,
    ACTIONS_BEFORE_END = 3
};
#define UNKNOWN_CODE "unknown_state"
#define UNKNOWN_DELAY_US (3600 * SECOND_US)

struct kept {
    int64_t seq;
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    int64_t number; /* its data */
};

struct machine {
    json_t *definition;
    json_t *variables;
    char state[STEP_ID_MAX + 1];
    char signal[SIGNAL_KEPT_NAME_MAX + 1]; /* that the handler of the state gets; "" = none */
    bool waits;                            /* for it */
    bool is_retry;
    bool is_on_record; /* as WAITING: a restored one sleeps before it begins */
    bool is_logged;    /* a former claim was lost: RUNNING is on record before a handler begins */
    bool is_reported;  /* the report under way has the answer of a handler */
    int attempt, waiting_attempt, failures;
    int64_t due_us; /* boot clock */
    int64_t began_us;
    struct kept kept[SIGNALS_KEPT_MOST_HERE]; /* in the order of their numbers */
    size_t kept_count;
    int64_t seen;        /* the number of the last signal */
    struct kept arrived; /* seq 0 = none */
    int64_t signal_seq;  /* to be named by the next report */
    char *action;        /* to be brought by the next report; owned */
    json_t *plans;       /* of the children of the action that is noted next, or NULL; owned */
    bool is_unknown;     /* the retry waits for a state that its definition lacks */
    char failed_state[STEP_ID_MAX + 1];
    int answers_since;
};

int64_t scripted_sum(int64_t sum, int64_t action)
{
    return (sum * 31 + action) % SUM_BELOW;
}

/* --- the definition --- */

static const json_t *state_of(const struct machine *machine, const char *name)
{
    return json_object_get(json_object_get(machine->definition, "states"), name);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static bool has_handler(const json_t *state)
{
    return json_object_get(state, "handler") != NULL;
}

/* The states that may follow: those that `next` lists, or all. */
static size_t list_next(const struct machine *machine, const json_t *state, const char *names[NAMES_MOST])
{
    size_t count = 0;
    size_t index;
    const char *name;
    json_t *value;
    const json_t *listed = json_object_get(state, "next");
    json_array_foreach((json_t *)(uintptr_t)listed, index, value)
    {
        names[count++] = json_string_value(value);
    }
    json_object_foreach(json_object_get(machine->definition, "states"), name, value)
    {
        if (listed == NULL) {
            names[count++] = name;
        }
    }
    INVARIANT(count > 0 && count <= NAMES_MOST);
    return count;
}

/* --- variables --- */

static int64_t variable(const struct machine *machine, const char *name)
{
    return json_integer_value(json_object_get(machine->variables, name));
}

static struct scripted_variables variables_of(const struct machine *machine)
{
    return (struct scripted_variables){
        .count = variable(machine, "count"), .sum = variable(machine, "sum"), .got = variable(machine, "got")};
}

/* The work of the handler. A signal counts with the answer that uses it up: an attempt more gets it again. */
static void compute(struct machine *machine, bool uses_signal)
{
    struct scripted_variables new = variables_of(machine);
    new.count++;
    new.sum = scripted_sum(new.sum, machine->attempt);
    new.got += uses_signal && machine->arrived.seq > 0 ? machine->arrived.number : 0;
    (void)json_object_set_new(machine->variables, "count", json_integer(new.count));
    (void)json_object_set_new(machine->variables, "sum", json_integer(new.sum));
    (void)json_object_set_new(machine->variables, "got", json_integer(new.got));
}

/* --- the machine on record --- */

static void begin_machine(struct machine *machine)
{
    const char *name;
    json_t *value;
    machine->variables = json_object();
    text_copy(machine->state, sizeof machine->state, text_of(machine->definition, "initial"));
    json_object_foreach(json_object_get(machine->definition, "variables"), name, value)
    {
        if (json_object_get(value, "initial") != NULL) {
            (void)json_object_set(machine->variables, name, json_object_get(value, "initial"));
        }
    }
}

static void restore_machine(struct machine *machine, const struct step_record *record, int64_t now_us)
{
    json_t *root = json_loads(record->variables, 0, NULL);
    INVARIANT(root != NULL && json_is_object(json_object_get(root, "variables")));
    const json_t *failure = json_object_get(root, "failure");
    machine->variables = json_deep_copy(json_object_get(root, "variables"));
    text_copy(machine->state, sizeof machine->state, text_of(root, "state"));
    text_copy(machine->signal, sizeof machine->signal, text_of(root, "signal"));
    text_copy(machine->failed_state, sizeof machine->failed_state, text_of(failure, "state"));
    machine->answers_since = (int)json_integer_value(json_object_get(root, "answers_since"));
    machine->is_on_record = record->state == STEP_WAITING;
    machine->waits = machine->is_on_record && record->signal[0] != '\0';
    machine->is_retry = machine->is_on_record && record->error_code[0] != '\0';
    machine->is_unknown = machine->is_retry && strcmp(record->error_code, UNKNOWN_CODE) == 0;
    if (machine->waits) {
        text_copy(machine->signal, sizeof machine->signal, record->signal);
    }
    machine->attempt = machine->waiting_attempt = record->attempt;
    machine->failures = record->failures;
    machine->due_us = time_add(now_us, record->due_in_us);
    json_decref(root);
}

struct machine *machine_new(const struct scripted_world *world, const struct engine_start *start)
{
    if (start->definition == NULL || strstr(start->definition, "\"states\":") == NULL) {
        return NULL;
    }
    struct machine *machine = calloc(1, sizeof *machine);
    INVARIANT(machine != NULL && start->step_count <= 1);
    machine->definition = json_loads(start->definition, 0, NULL);
    INVARIANT(machine->definition != NULL);
    bool is_restored = start->step_count == 1 && start->steps[0].variables != NULL;
    if (is_restored) {
        restore_machine(machine, &start->steps[0], scripted_now(world));
    } else {
        begin_machine(machine);
        machine->attempt = start->step_count == 1 ? start->steps[0].attempt : 0;
    }
    machine->is_logged = start->interruptions > 0 || start->lost_a_node;
    if (start->step_count == 0 || start->steps[0].state != STEP_RUNNING) {
        machine->attempt += start->interruptions; /* numbers that a lost claim may have used without a record */
    }
    for (size_t i = 0; i < start->signal_count; i++) {
        (void)machine_keep_signal(machine, &start->signals[i]);
    }
    machine->seen = start->signals_seen > machine->seen ? start->signals_seen : machine->seen;
    return machine;
}

void machine_free(struct machine *machine)
{
    if (machine != NULL) {
        json_decref(machine->definition);
        json_decref(machine->variables);
        json_decref(machine->plans);
        free(machine->action);
        free(machine);
    }
}

bool machine_has_begun(const struct machine *machine)
{
    return machine->attempt > 0;
}

static char *write_machine(const struct machine *machine)
{
    json_t *root = json_pack("{s:s, s:O}", "state", machine->state, "variables", machine->variables);
    if (machine->signal[0] != '\0') {
        (void)json_object_set_new(root, "signal", json_string(machine->signal));
    }
    if (machine->failed_state[0] != '\0') {
        (void)json_object_set_new(root, "failure",
                                  json_pack("{s:s, s:s}", "state", machine->failed_state, "code", FAILURE_CODE));
        (void)json_object_set_new(root, "answers_since", json_integer(machine->answers_since));
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    INVARIANT(text != NULL);
    return text;
}

/* --- signals --- */

bool machine_keep_signal(struct machine *machine, const struct signal_record *signal)
{
    if (signal->seq <= machine->seen) {
        return false;
    }
    INVARIANT(machine->kept_count < SIGNALS_KEPT_MOST_HERE);
    struct kept *kept = &machine->kept[machine->kept_count++];
    *kept = (struct kept){.seq = signal->seq, .number = strtoll(signal->data, NULL, 10)};
    text_copy(kept->name, sizeof kept->name, signal->name);
    machine->seen = signal->seq;
    return true;
}

int64_t machine_signals_seen(const struct machine *machine)
{
    return machine->seen;
}

static struct kept take_kept(struct machine *machine, size_t at)
{
    struct kept kept = machine->kept[at];
    machine->kept_count--;
    memmove(&machine->kept[at], &machine->kept[at + 1], (machine->kept_count - at) * sizeof kept);
    return kept;
}

/* The oldest one of the name that the machine waits for. */
static bool take_signal(struct machine *machine)
{
    size_t at = 0;
    while (machine->waits && at < machine->kept_count && strcmp(machine->kept[at].name, machine->signal) != 0) {
        at++;
    }
    if (!machine->waits || at == machine->kept_count) {
        return false;
    }
    machine->arrived = take_kept(machine, at);
    machine->waits = false;
    return true;
}

/* A wake of an earlier attempt is of no use. */
static bool take_wake(struct machine *machine)
{
    for (size_t at = 0; at < machine->kept_count;) {
        if (strcmp(machine->kept[at].name, WAKE_SIGNAL STEP_OF_STATES) != 0) {
            at++;
            continue;
        }
        struct kept wake = take_kept(machine, at);
        if (wake.number == machine->waiting_attempt) {
            machine->signal_seq = wake.seq;
            return true;
        }
    }
    return false;
}

static void use_up_signal(struct machine *machine)
{
    if (machine->arrived.seq > 0) {
        machine->signal_seq = machine->arrived.seq;
        machine->arrived.seq = 0;
    }
}

/* --- reports --- */

void machine_fill_report(struct scripted_world *world, struct run *run, struct report *report, enum step_state state)
{
    struct machine *machine = run->machine;
    struct step_record *step = &report->step;
    report->has_step = true;
    report->step_index = run->step;
    step->state = state;
    step->attempt = machine->attempt;
    step->failures = machine->failures;
    step->exit_code = -1;
    step->ran_us = machine->began_us == 0 ? 0 : scripted_now(world) - machine->began_us;
    step->signal_seq = state == STEP_CANCELLED ? 0 : machine->signal_seq;
    step->variables = write_machine(machine);
    step->action = machine->action;
    machine->is_reported = machine->action != NULL;
    machine->action = NULL;
    machine->signal_seq = 0;
    text_copy(step->step, sizeof step->step, STEP_OF_STATES);
    if (state == STEP_WAITING && machine->waits) {
        text_copy(step->signal, sizeof step->signal, machine->signal);
    } else if (state == STEP_COMPLETED) {
        step->output = json_dumps(machine->variables, JSON_COMPACT);
        step->output_length = step->output == NULL ? 0 : strlen(step->output);
    }
    if (state == STEP_FAILED || (state == STEP_WAITING && machine->is_retry)) {
        text_copy(step->error_code, sizeof step->error_code, machine->is_unknown ? UNKNOWN_CODE : FAILURE_CODE);
    }
}

static void report_machine(struct scripted_world *world, struct run *run, enum step_state state, int64_t delay_us)
{
    struct report *report = report_new(REPORT_STEP, run->id, run->fence);
    INVARIANT(report != NULL && run->handle != NULL);
    machine_fill_report(world, run, report, state);
    report->step.due_in_us = delay_us;
    engine_report(&run->handle->base, report);
}

static void report_waiting(struct scripted_world *world, struct run *run, int64_t delay_us)
{
    struct machine *machine = run->machine;
    machine->due_us = time_add(scripted_now(world), delay_us);
    machine->waiting_attempt = machine->attempt;
    if (machine->action != NULL && !machine->is_retry) {
        run->is_suspect = false; /* a change of state is progress */
    }
    run->state = RUN_WAITS_RESULT;
    report_machine(world, run, STEP_WAITING, delay_us);
}

/* The action of a handler that has run, for the next report. `next` may be NULL, and so may `code`. */
static void note_action(const struct scripted_world *world, struct run *run, const char *outcome, const char *next,
                        const char *code)
{
    struct machine *machine = run->machine;
    struct scripted_variables now = variables_of(machine);
    json_t *root = json_pack("{s:i, s:s, s:s, s:s?, s:s?, s:I, s:{s:I, s:I, s:I}}", "action", machine->attempt, "state",
                             machine->state, "outcome", outcome, "next", next, "code", code, "ran_us",
                             (json_int_t)(scripted_now(world) - machine->began_us), "variables", "count",
                             (json_int_t)now.count, "sum", (json_int_t)now.sum, "got", (json_int_t)now.got);
    if (machine->plans != NULL) {
        (void)json_object_set_new(root, "plans", machine->plans);
        machine->plans = NULL;
    }
    free(machine->action);
    machine->action = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    INVARIANT(machine->action != NULL);
}

bool machine_take_reported(struct machine *machine)
{
    bool is_reported = machine->is_reported;
    machine->is_reported = false;
    return is_reported;
}

/* --- states --- */

static void wait_in_state(struct scripted_world *world, struct run *run, int64_t delay_us, const char *signal)
{
    struct machine *machine = run->machine;
    text_copy(machine->signal, sizeof machine->signal, signal);
    machine->waits = signal[0] != '\0';
    machine->is_retry = false;
    report_waiting(world, run, delay_us);
}

static void enter_state(struct scripted_world *world, struct run *run, const char *name, int64_t delay_us,
                        const char *signal)
{
    struct machine *machine = run->machine;
    const json_t *state = state_of(machine, name);
    const char *type = text_of(state, "type");
    text_copy(machine->state, sizeof machine->state, name);
    machine->failures = 0;
    if (delay_us != 0 || signal[0] != '\0' || has_handler(state)) {
        wait_in_state(world, run, delay_us, signal);
    } else if (strcmp(type, "manual") == 0) {
        wait_in_state(world, run, TIME_NEVER, MANUAL_SIGNAL STEP_OF_STATES);
    } else {
        scripted_end_run(world, run, strcmp(type, "end") == 0 ? END_COMPLETED : END_FAILED, true);
    }
}

static void begin_handler(struct scripted_world *world, struct run *run)
{
    struct machine *machine = run->machine;
    int64_t most_us = world->calm ? 1 : world->plan.run_most_us / 2 + 1;
    run->state = RUN_IN_STEP;
    machine->began_us = scripted_now(world);
    ledger_begin_step(&world->ledger, run->entry, run->step, machine->attempt, scripted_now(world));
    struct scripted_action *action = &run->entry->action;
    *action = (struct scripted_action){
        .is_open = true, .fence = run->fence, .number = machine->attempt, .variables = variables_of(machine)};
    text_copy(action->state, sizeof action->state, machine->state);
    scripted_later(world, run, EVENT_STEP_END,
                   scripted_now(world) + (int64_t)random_below(&world->random, (uint64_t)most_us));
}

static void begin_attempt(struct scripted_world *world, struct run *run)
{
    struct machine *machine = run->machine;
    const json_t *state = state_of(machine, machine->state);
    machine->attempt++;
    machine->is_retry = false;
    machine->is_unknown = false;
    machine->began_us = 0;
    if (state == NULL) {
        ledger_note_broken(&world->ledger, run->id, "its state is not in its definition; action", machine->attempt);
        scripted_end_run(world, run, END_FAILED, true);
        return;
    }
    if (machine->signal[0] != '\0' && machine->arrived.seq == 0) {
        machine->waits = true;
        (void)take_signal(machine);
    }
    machine->waits = false;
    if (!has_handler(state)) {
        char name[STEP_ID_MAX + 1];
        text_copy(name, sizeof name, machine->state);
        use_up_signal(machine);
        enter_state(world, run, name, 0, "");
    } else if (machine->is_logged) {
        run->state = RUN_WAITS_BEGIN;
        report_machine(world, run, STEP_RUNNING, 0);
    } else {
        begin_handler(world, run);
    }
}

static enum wait_kind kind_of_wait(const struct machine *machine)
{
    if (machine->waits) {
        return strcmp(machine->signal, MANUAL_SIGNAL STEP_OF_STATES) == 0 ? WAIT_MANUAL
               : signal_is_of_children(machine->signal)                   ? WAIT_CHILD
                                                                          : WAIT_SIGNAL;
    }
    return machine->is_retry ? WAIT_RETRY : WAIT_SLEEP;
}

/* A wait that is not over gives up its slot, now or a little later, unless the claim is that of a suspect that waits for
 * something else than an update. */
static void sleep_machine(struct scripted_world *world, struct run *run)
{
    struct machine *machine = run->machine;
    int64_t now_us = scripted_now(world);
    run->state = RUN_SLEEPS;
    machine->is_on_record = false;
    if (take_wake(machine) || take_signal(machine) || machine->due_us <= now_us) {
        begin_attempt(world, run);
    } else if (scripted_may_park(run, kind_of_wait(machine)) && (world->calm || random_below(&world->random, 4) > 0)) {
        int64_t delay_us = machine->due_us == TIME_NEVER ? TIME_NEVER : machine->due_us - now_us;
        scripted_park_run(world, run, delay_us, kind_of_wait(machine));
    } else {
        int64_t again_us = now_us + LOOK_AGAIN_US;
        scripted_later(world, run, EVENT_WAKE, machine->due_us < again_us ? machine->due_us : again_us);
    }
}

void machine_go_on(struct scripted_world *world, struct run *run)
{
    struct machine *machine = run->machine;
    if (run->state == RUN_BEGINS && !machine->is_on_record) {
        begin_attempt(world, run);
    } else if (run->state == RUN_BEGINS || run->state == RUN_SLEEPS || run->state == RUN_WAITS_PARK) {
        sleep_machine(world, run);
    } else if (run->state == RUN_WAITS_BEGIN) {
        begin_handler(world, run);
    }
}

void machine_recorded(struct scripted_world *world, struct run *run)
{
    if (run->state == RUN_WAITS_RESULT) {
        run->entry->answers_durable += machine_take_reported(run->machine);
        run->state = RUN_WAITS_PARK; /* on record: it may sleep */
    }
    if (run->state == RUN_WAITS_BEGIN || run->state == RUN_WAITS_PARK) {
        scripted_later(world, run, EVENT_NEXT, scripted_now(world));
    }
}

/* --- answers --- */

static bool drawn(struct scripted_world *world, int per_mille)
{
    return (int)random_below(&world->random, 1000) < per_mille;
}

static int64_t draw_delay(struct scripted_world *world)
{
    return DELAY_LEAST_US + (int64_t)random_below(&world->random, DELAY_MOST_US);
}

static void end_with_answer(struct scripted_world *world, struct run *run)
{
    const json_t *state = state_of(run->machine, run->machine->state);
    bool is_error = strcmp(text_of(state, "type"), "error") == 0;
    compute(run->machine, true);
    note_action(world, run, "done", NULL, NULL);
    use_up_signal(run->machine);
    scripted_end_run(world, run, is_error ? END_FAILED : END_COMPLETED, true);
}

/* Executions that the action starts. The signal of those that the next state waits for, or "". */
static void plan_children(struct scripted_world *world, const struct run *run, char *signal, size_t size)
{
    int place = -1;
    struct machine *machine = run->machine;
    if (world->planner == NULL || !drawn(world, world->calm ? 50 : 250)) {
        return;
    }
    char *plans = world->planner(world->planner_context, run->id, &place);
    machine->plans = plans == NULL ? NULL : json_loads(plans, 0, NULL);
    free(plans);
    if (machine->plans != NULL && place >= 0) {
        (void)snprintf(signal, size, CHILDREN_SIGNAL STEP_OF_STATES ".%d.%d", machine->attempt, place);
    }
}

static void answer_next(struct scripted_world *world, struct run *run, const char *next)
{
    struct machine *machine = run->machine;
    const json_t *signals = json_object_get(machine->definition, "signals");
    char of_children[SIGNAL_KEPT_NAME_MAX + 1] = "";
    int64_t delay_us = 0;
    plan_children(world, run, of_children, sizeof of_children);
    const char *signal = of_children;
    if (signal[0] != '\0') {
        delay_us = drawn(world, 800) ? TIME_NEVER : draw_delay(world);
    } else if (drawn(world, world->calm ? 100 : 300)) {
        size_t at = (size_t)random_below(&world->random, json_array_size(signals));
        signal = json_string_value(json_array_get(signals, at));
        delay_us = drawn(world, 600) ? TIME_NEVER : draw_delay(world);
    } else if (drawn(world, world->calm ? 50 : 250)) {
        delay_us = draw_delay(world);
    }
    compute(machine, true);
    note_action(world, run, signal[0] != '\0' ? "wait" : "next", next, NULL);
    use_up_signal(machine);
    machine->answers_since++;
    enter_state(world, run, next, delay_us, signal);
}

/* The name of a state that the definition lacks: the state waits as it is, or that is a failure. */
static void answer_unknown(struct scripted_world *world, struct run *run)
{
    struct machine *machine = run->machine;
    compute(machine, false);
    note_action(world, run, "unknown", "nowhere", UNKNOWN_CODE);
    machine->is_retry = true;
    machine->is_unknown = true;
    machine->waits = false;
    report_waiting(world, run, UNKNOWN_DELAY_US);
}

/* Another attempt, if the policy of the state allows one, else the state behind a failure, else the end. */
static void answer_failure(struct scripted_world *world, struct run *run, bool is_final)
{
    struct machine *machine = run->machine;
    const json_t *state = state_of(machine, machine->state);
    int64_t attempts = json_integer_value(json_object_get(json_object_get(state, "retry"), "attempts"));
    const char *on_error = text_of(machine->definition, "on_error");
    const char *next = text_of(state, "on_failure");
    next = next[0] == '\0' && strcmp(on_error, machine->state) != 0 ? on_error : next;
    machine->failures++;
    if (!is_final && machine->failures < attempts) {
        compute(machine, false);
        note_action(world, run, "retry", NULL, FAILURE_CODE);
        machine->is_retry = true;
        machine->waits = false;
        report_waiting(world, run, drawn(world, 300) ? 0 : draw_delay(world));
        return;
    }
    compute(machine, true);
    note_action(world, run, "failed", next[0] == '\0' ? NULL : next, FAILURE_CODE);
    use_up_signal(machine);
    if (next[0] == '\0') {
        scripted_end_run(world, run, END_FAILED, true);
        return;
    }
    text_copy(machine->failed_state, sizeof machine->failed_state, machine->state);
    machine->answers_since = 0;
    enter_state(world, run, next, 0, "");
}

void machine_answer(struct scripted_world *world, struct run *run)
{
    const char *names[NAMES_MOST];
    struct machine *machine = run->machine;
    const json_t *state = state_of(machine, machine->state);
    size_t count = list_next(machine, state, names);
    bool is_young = variable(machine, "count") < ACTIONS_BEFORE_END;
    ledger_end_step(&world->ledger, run->entry, run->step, scripted_now(world));
    run->entry->action.is_open = false;
    run->entry->answers++;
    for (size_t i = 0; world->calm && !is_young && i < count; i++) {
        if (strcmp(text_of(state_of(machine, names[i]), "type"), "end") == 0 && drawn(world, 500)) {
            answer_next(world, run, names[i]);
            return;
        }
    }
    if (drawn(world, is_young ? 20 : world->calm ? 1000 : 150)) {
        end_with_answer(world, run);
    } else if (!world->calm && drawn(world, 200)) {
        answer_failure(world, run, drawn(world, 400));
    } else if (world->planner != NULL && !world->calm && drawn(world, 30)) {
        if (strcmp(text_of(run->machine->definition, "unknown_state"), "error") == 0) {
            answer_failure(world, run, true);
        } else {
            answer_unknown(world, run);
        }
    } else {
        answer_next(world, run, names[random_below(&world->random, count)]);
    }
}
