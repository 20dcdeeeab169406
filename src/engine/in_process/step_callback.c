/* Reports of functions to http steps with `callback`. step_callback.h has the way of an attempt.
 *
 * Which report counts:
 *
 *   1. The store takes a report only for the attempt that is on record, so one of an earlier attempt does not get here.
 *   2. A report that it took, and that this node gets after it began another attempt, was the result when it was taken. A
 *      success counts: the work of the step is done. A failure does not, because the later attempt may still succeed.
 *   3. A report goes before a failed answer to the request, and before the wait for the next attempt: the answer was lost,
 *      the work was not. It does not go before an answer with a result.
 *
 * The loop's thread runs all of it. A function here must not use its step after the caller has settled the execution. */
#include "engine/in_process/step_callback.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_signal.h"

bool step_may_call_back(const struct step_run *run)
{
    const struct step *step = step_run_step(run);
    return step->kind == STEP_HTTP && step->http.callback_us > 0;
}

enum weir_status step_callback_open(struct step_run *run, struct weir_error *error)
{
    INVARIANT(step_may_call_back(run) && run->attempt > 0);
    char hash[CALLBACK_HASH_LENGTH + 1];
    struct step_callback *callback = calloc(1, sizeof *callback);
    if (callback == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = callback_token_make(run->execution->id, callback->token, hash, error);
    if (status != WEIR_OK) {
        step_callback_free(callback);
        return status;
    }
    (void)snprintf(callback->name, sizeof callback->name, CALLBACK_SIGNAL "%s:%d:%s", step_run_step(run)->id, run->attempt,
                   hash);
    step_callback_free(run->callback);
    run->callback = callback;
    return WEIR_OK;
}

void step_callback_free(struct step_callback *callback)
{
    free(callback);
}

/* --- the report --- */

/* The attempt that a kept signal is the report of; 0: it is none of this step. */
static int attempt_of_report(const struct step_run *run, const struct kept_signal *kept)
{
    static const char prefix[] = CALLBACK_SIGNAL;
    const char *id = step_run_step(run)->id;
    const char *name = kept->name;
    size_t length = strlen(id);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return 0;
    }
    name += sizeof prefix - 1;
    return strncmp(name, id, length) == 0 && name[length] == ':' ? (int)strtol(name + length + 1, NULL, 10) : 0;
}

/* The report has a result. Takes `output` over. */
static void complete_by_report(struct step_run *run, json_t *output)
{
    struct text text = {.max = SIGNAL_DATA_BYTES_MAX + 1};
    if (output == NULL || json_write(output, &text, NULL) != WEIR_OK) {
        json_decref(output);
        text_close(&text);
        step_run_fail(run, "callback_invalid", "the report of the function is no JSON that this node can read", true);
        return;
    }
    json_decref(run->output);
    run->output = output;
    struct step_outcome outcome = {.is_done = true, .output = text.data, .output_length = text.length};
    step_run_finish(run, &outcome); /* which owns the text now */
}

/* The report has a failure. The policy of the step decides about the next attempt, unless the function excludes it. */
static void fail_by_report(struct step_run *run, const json_t *report)
{
    const char *code = json_string_value(json_object_get(report, "error_code"));
    const char *error = json_string_value(json_object_get(report, "error"));
    char kept[ERROR_CODE_MAX + 1];
    text_copy(kept, sizeof kept, code != NULL ? code : "callback_failed");
    step_run_fail(run, kept, error, json_is_false(json_object_get(report, "retry")));
}

/* Takes the first report that counts out of the kept signals, and drops those that do not. NULL: there is none. */
static struct kept_signal *take_report(struct step_run *run, json_t **ret_report)
{
    struct kept_signal **link = &run->execution->signals;
    while (*link != NULL) {
        struct kept_signal *kept = *link;
        int attempt = attempt_of_report(run, kept);
        json_t *report = NULL;
        if (attempt == 0) {
            link = &kept->next;
            continue;
        }
        if (json_read(kept->data, kept->data_length, &report, NULL) == WEIR_OUT_OF_MEMORY) {
            engine_note_lost_report(&run->execution->runner->base); /* the next claim has the signal, too */
            return NULL;
        }
        *link = kept->next;
        if (json_object_get(report, "error_code") == NULL || attempt == run->attempt) {
            *ret_report = report;
            return kept;
        }
        json_decref(report);
        kept_signal_free(kept);
    }
    return NULL;
}

bool step_callback_consume(struct step_run *run)
{
    INVARIANT(run->phase != PHASE_DONE);
    json_t *report = NULL;
    struct kept_signal *kept = step_may_call_back(run) ? take_report(run, &report) : NULL;
    if (kept == NULL) {
        return false;
    }
    run->signal_seq = kept->seq;
    kept_signal_free(kept);
    if (json_object_get(report, "error_code") != NULL) {
        fail_by_report(run, report);
    } else {
        complete_by_report(run, json_incref(json_object_get(report, "output")));
    }
    json_decref(report);
    return true;
}

/* --- the wait --- */

void step_callback_wait(struct step_run *run)
{
    INVARIANT(run->phase == PHASE_RUNNING && step_may_call_back(run));
    enum ending ending = run->execution->ending;
    run->shortages = 0;
    if (ending != ENDING_NONE && ending != ENDING_GIVEN_BACK) {
        step_run_discontinue(run);
    } else if (!step_callback_consume(run)) {
        step_run_report_waiting(run, step_run_step(run)->http.callback_us, NULL);
    }
}

void step_callback_time_out(struct step_run *run)
{
    INVARIANT(run->phase == PHASE_SLEEPING && run->awaits_callback);
    run->awaits_callback = false;
    step_run_fail(run, "callback_timeout", "the function did not report its result within `callback`", false);
}
