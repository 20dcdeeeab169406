/* Steps that wait for a signal, and the signals that an execution has not consumed yet.
 *
 * The node gets the signals of an execution with its claim and while it holds it, in the order of their numbers, and
 * perhaps twice. This file keeps those that no step waits for.
 *
 *   1. A step that begins takes the oldest kept signal of its name. Without one it reports WAITING and sleeps until its
 *      timeout.
 *   2. A signal that arrives goes to the first step, in the order of the definition, that sleeps for its name.
 *   3. The loop handles the signal or the timer, whichever it finds first. The step leaves PHASE_SLEEPING with that, so the
 *      other one finds no step. The report of the end names the number of the signal, and the store marks it consumed in
 *      the transaction that records the end. If that record never comes, the signal is still there for the next claim.
 *
 * A wake (queue/signal.h) makes the timer of its step due at once, so the step goes on as if its time had come. The next
 * report of the step names the number of the wake.
 *
 * A step that is on record as WAITING looks at the kept signals before it sleeps again. A signal that came before this
 * claim wins over a timeout that passed meanwhile. The functions start nothing and free no execution.
 */
#include "engine/in_process/step_signal.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_callback.h"
#include "engine/in_process/step_children.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_states.h"

/* --- kept signals --- */

struct kept_signal *kept_signal_new(const struct signal_record *signal)
{
    INVARIANT(signal != NULL && signal->data != NULL && signal->seq > 0);
    struct kept_signal *kept = calloc(1, sizeof *kept);
    char *data = kept == NULL ? NULL : malloc(signal->data_length + 1);
    if (data == NULL) {
        free(kept);
        return NULL;
    }
    memcpy(data, signal->data, signal->data_length);
    data[signal->data_length] = '\0';
    kept->seq = signal->seq;
    kept->data = data;
    kept->data_length = signal->data_length;
    text_copy(kept->name, sizeof kept->name, signal->name);
    return kept;
}

void kept_signal_free(struct kept_signal *kept)
{
    if (kept != NULL) {
        free(kept->data);
        free(kept);
    }
}

void execution_keep_signal(struct execution *execution, struct kept_signal *kept)
{
    INVARIANT(execution != NULL && kept != NULL);
    if (kept->seq <= execution->signals_seen) {
        kept_signal_free(kept);
        return;
    }
    struct kept_signal **end = &execution->signals;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = kept;
    execution->signals_seen = kept->seq;
}

void execution_signal(struct execution *execution, struct kept_signal *kept)
{
    INVARIANT(execution->in_table);
    execution_keep_signal(execution, kept);
    for (size_t i = 0; i < execution->step_count && execution->ending == ENDING_NONE; i++) {
        struct step_run *run = &execution->steps[i];
        bool takes = run->machine == NULL && step_run_awaits(run) != NULL && !run->awaits_node;
        if (run->phase == PHASE_SLEEPING && run->machine != NULL && step_states_take_signal(run)) {
            step_run_set_timer(run, run->resume_us);
            continue;
        }
        if (run->phase != PHASE_SLEEPING || (takes && step_signal_consume(run)) || step_callback_consume(run)) {
            continue;
        }
        if (step_wake_take(run)) {
            step_run_set_timer(run, run->resume_us);
        }
    }
}

const char *step_run_awaits(const struct step_run *run)
{
    INVARIANT(run != NULL);
    return run->machine != NULL ? step_states_awaits(run) : step_awaits(step_run_step(run));
}

void execution_drop_signals(struct execution *execution)
{
    while (execution->signals != NULL) {
        struct kept_signal *kept = execution->signals;
        execution->signals = kept->next;
        kept_signal_free(kept);
    }
}

/* --- steps --- */

/* For `.steps`. Data that is no JSON was not written by weir. */
static enum weir_status keep_output(struct step_run *run, const struct kept_signal *kept)
{
    json_decref(run->output);
    run->output = NULL;
    return json_read(kept->data, kept->data_length, &run->output, NULL);
}

/* An output of a decision that ends the step as failed, and the text of the failure. The comment is longer than that may
 * be, and of a caller. */
static bool fails_by_rejection(const struct step_run *run, char *to, size_t size)
{
    const struct step_approval *approval = step_run_step(run)->signal.approval;
    if (approval == NULL || !approval->fails_on_reject || json_is_true(json_object_get(run->output, "approved"))) {
        return false;
    }
    const char *by = json_string_value(json_object_get(run->output, "by"));
    const char *comment = json_string_value(json_object_get(run->output, "comment"));
    (void)snprintf(to, size, "rejected by %s%s%s", by == NULL ? "its timeout" : by, comment == NULL ? "" : ": ",
                   comment == NULL ? "" : comment);
    text_make_safe(to);
    return true;
}

/* Takes the signal out of those that are kept; its data becomes the output. Without an output, later steps would read null,
 * so a guard on it could pass: the step fails. */
static void end_by_signal(struct step_run *run, struct kept_signal *kept, bool is_readable)
{
    static const char text[] = "the data of the signal is no JSON that this node can read";
    struct step_outcome outcome = {.code = "signal_invalid", .error = text};
    char rejection[WEIR_ERROR_MESSAGE_MAX];
    bool is_rejected = is_readable && fails_by_rejection(run, rejection, sizeof rejection);
    if (is_rejected) {
        outcome = (struct step_outcome){.code = "rejected", .error = rejection};
        run->failures++;
        is_readable = false;
    } else if (is_readable) {
        outcome = (struct step_outcome){.output = kept->data, .output_length = kept->data_length};
        kept->data = NULL; /* which the report owns now */
    } else {
        run->failures++;
    }
    run->signal_seq = kept->seq;
    kept_signal_free(kept);
    step_run_report_final(run, is_readable ? STEP_COMPLETED : STEP_FAILED, &outcome);
}

bool step_signal_consume(struct step_run *run)
{
    struct kept_signal **link = &run->execution->signals;
    INVARIANT(step_awaits(step_run_step(run)) != NULL && run->phase != PHASE_DONE);
    while (*link != NULL && strcmp((*link)->name, step_awaits(step_run_step(run))) != 0) {
        link = &(*link)->next;
    }
    struct kept_signal *kept = *link;
    if (kept == NULL) {
        return false;
    }
    if (step_run_step(run)->kind == STEP_START) {
        struct kept_signal *next = kept->next;
        bool is_ended = step_children_end(run, kept);
        *link = is_ended ? next : kept;
        if (!is_ended) {
            engine_note_lost_report(&run->execution->runner->base);
        }
        return is_ended;
    }
    enum weir_status status = keep_output(run, kept);
    if (status == WEIR_OUT_OF_MEMORY) {
        engine_note_lost_report(&run->execution->runner->base); /* the next claim has the signal, too */
        return false;
    }
    *link = kept->next;
    end_by_signal(run, kept, status == WEIR_OK);
    return true;
}

int64_t step_signal_timeout(const struct step_run *run)
{
    int64_t timeout_us = step_run_step(run)->signal.timeout_us;
    return timeout_us > 0 ? timeout_us : TIME_NEVER;
}

/* A wake of an earlier attempt is no longer of use. */
bool step_wake_take(struct step_run *run)
{
    INVARIANT(run != NULL && run->execution != NULL);
    struct kept_signal **link = &run->execution->signals;
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, WAKE_SIGNAL "%s", step_run_step(run)->id);
    while (*link != NULL) {
        struct kept_signal *kept = *link;
        if (strcmp(kept->name, name) != 0) {
            link = &kept->next;
            continue;
        }
        bool is_of_this_wait = strtol(kept->data, NULL, 10) == run->waiting_attempt;
        *link = kept->next;
        if (is_of_this_wait) {
            run->signal_seq = kept->seq;
            run->is_woken = true;
            run->resume_us = loop_now(&run->execution->runner->loop);
        }
        kept_signal_free(kept);
        if (is_of_this_wait) {
            return true;
        }
    }
    return false;
}

void step_sleep_end(struct step_run *run)
{
    static const char woken[] = "{\"woken\":true}";
    struct step_outcome outcome = {.is_certain = !run->is_woken, .output = run->is_woken ? strdup(woken) : NULL};
    INVARIANT(run->phase == PHASE_SLEEPING && step_run_step(run)->kind == STEP_SLEEP);
    if (outcome.output != NULL) {
        outcome.output_length = sizeof woken - 1;
        json_decref(run->output);
        run->output = json_pack("{s:b}", "woken", true);
    }
    step_run_report_final(run, STEP_COMPLETED, &outcome);
}

/* The step has the default as its output. False: memory ran out. */
static bool complete_by_default(struct step_run *run, const struct template *standby)
{
    struct text text = {.max = SIGNAL_DATA_BYTES_MAX + 1};
    json_decref(run->output);
    run->output = NULL;
    if (template_evaluate(standby, NULL, NULL, NULL, &run->output, NULL) != WEIR_OK ||
        json_write(run->output, &text, NULL) != WEIR_OK) {
        text_close(&text);
        return false;
    }
    struct step_outcome outcome = {.output = text.data, .output_length = text.length}; /* which the report owns now */
    step_run_report_final(run, STEP_COMPLETED, &outcome);
    return true;
}

/* The timeout decides. */
static void decide_by_default(struct step_run *run, const struct step_approval *approval)
{
    char rejection[WEIR_ERROR_MESSAGE_MAX];
    struct text text = {.max = 200};
    json_decref(run->output);
    run->output = json_pack("{s:b, s:n, s:n, s:n}", "approved", approval->default_approves, "by", "comment", "at");
    if (run->output == NULL || json_write(run->output, &text, NULL) != WEIR_OK) {
        text_close(&text);
        engine_note_lost_report(&run->execution->runner->base); /* the next claim finds the timeout passed */
    } else if (fails_by_rejection(run, rejection, sizeof rejection)) {
        struct step_outcome outcome = {.code = "rejected", .error = rejection};
        text_close(&text);
        run->failures++;
        step_run_report_final(run, STEP_FAILED, &outcome);
    } else {
        struct step_outcome outcome = {.output = text.data, .output_length = text.length}; /* which the report owns now */
        step_run_report_final(run, STEP_COMPLETED, &outcome);
    }
}

static void fail_by_timeout(struct step_run *run, const struct step_signal *signal)
{
    char text[SIGNAL_KEPT_NAME_MAX + 64];
    struct step_outcome outcome = {.code = "signal_timeout", .error = text};
    if (signal->approval != NULL) {
        outcome.code = "approval_timeout";
        outcome.error = "no approval came within its timeout";
    } else {
        (void)snprintf(text, sizeof text, "no signal \"%s\" came within its timeout", signal->name);
    }
    run->failures++;
    step_run_report_final(run, STEP_FAILED, &outcome);
}

void step_signal_time_out(struct step_run *run)
{
    const struct step_signal *signal = &step_run_step(run)->signal;
    INVARIANT(run->phase == PHASE_SLEEPING);
    if (signal->approval != NULL && signal->approval->has_default) {
        decide_by_default(run, signal->approval);
    } else if (signal->default_output == NULL) {
        fail_by_timeout(run, signal);
    } else if (!complete_by_default(run, signal->default_output)) {
        engine_note_lost_report(&run->execution->runner->base); /* the next claim finds the timeout passed */
    }
}
