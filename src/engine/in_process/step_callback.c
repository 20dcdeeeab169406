/* Reports of functions to http steps with `callback`. step_callback.h has the way of an attempt.
 *
 * Which report counts:
 *
 *   1. The store takes a report only for the attempt that is on record, so one of an earlier attempt does not get here.
 *   2. A report that it took, and that this node gets after it began another attempt, was the result when it was taken. A
 *      success counts: the work of the step is done. A failure does not, because the later attempt may still succeed.
 *   3. A report goes before a failed answer to the request, and before the wait for the next attempt: the answer was lost,
 *      the work was not. It does not go before an answer with a result.
 *   4. A report goes before the end of the execution, so a failure of another step does not hide a result from the undos.
 *   5. The store takes no report after the due time of the wait. A node that holds the step waits some time longer for the
 *      reports that the store took before it.
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
#include "engine/in_process/step_secrets.h"
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

/* The values of secrets in the report become "***", as in the answer to a request. Takes `output` over. */
static void complete_by_report(struct step_run *run, json_t *output, const struct step_secrets *secrets)
{
    struct text text = {.max = SIGNAL_DATA_BYTES_MAX + 1};
    json_t *value = NULL;
    enum weir_status status = output == NULL ? WEIR_INVALID_ARGUMENT : json_write(output, &text, NULL);
    json_decref(output);
    status = status == WEIR_OK ? step_secrets_hide_output(secrets, &text.data, &value, NULL) : status;
    if (status != WEIR_OK) {
        json_decref(value);
        free(text.data);
        step_run_fail(run, "callback_invalid", "the report of the function is no JSON that this node can read", true);
        return;
    }
    json_decref(run->output);
    run->output = value;
    struct step_outcome outcome = {.is_done = true, .output = text.data, .output_length = strlen(text.data)};
    step_run_finish(run, &outcome); /* which owns the text now */
}

/* Whether the last attempt has failed already, and the step waits for the next one. */
static bool has_counted_failure(const struct step_run *run)
{
    return run->state == STEP_WAITING && !run->awaits_callback && !run->awaits_node;
}

/* The report has a failure. The policy of the step decides about the next attempt, unless the function excludes it. An
 * attempt counts as one failure, so one that the answer to its request has made is not counted again. */
static void fail_by_report(struct step_run *run, const json_t *report, const struct step_secrets *secrets)
{
    char code[ERROR_CODE_MAX + 1];
    const char *own_code = json_string_value(json_object_get(report, "error_code"));
    const char *error = json_string_value(json_object_get(report, "error"));
    char *safe_code = step_secrets_copy_message(secrets, own_code, SIGNAL_DATA_BYTES_MAX, ERROR_CODE_MAX);
    char *safe_error = step_secrets_copy_message(secrets, error, SIGNAL_DATA_BYTES_MAX, ERROR_TEXT_MAX);
    text_copy(code, sizeof code, safe_code != NULL && *safe_code != '\0' ? safe_code : "callback_failed");
    run->failures -= has_counted_failure(run) && run->failures > 0;
    step_run_fail(run, code, safe_error, json_is_false(json_object_get(report, "retry")));
    free(safe_code);
    free(safe_error);
}

/* A success counts for each attempt. A failure counts for the last attempt, once: where the next one may still succeed, the
 * failure of the request stands for it. */
static bool report_counts(const struct step_run *run, const json_t *report, int attempt)
{
    bool is_failure = json_object_get(report, "error_code") != NULL;
    bool is_final = json_is_false(json_object_get(report, "retry"));
    return !is_failure || (attempt == run->attempt && (is_final || !has_counted_failure(run)));
}

/* Takes the first report that counts out of the kept signals, and drops those that do not. The next record of the step
 * consumes one that was dropped. NULL: there is none. */
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
        run->signal_seq = kept->seq;
        if (report_counts(run, report, attempt)) {
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
    struct weir_error error = {.message = ""};
    struct step_secrets *secrets = NULL;
    json_t *report = NULL;
    struct kept_signal *kept = step_may_call_back(run) ? take_report(run, &report) : NULL;
    if (kept == NULL) {
        return false;
    }
    enum weir_status status = step_secrets_read(run->execution, step_run_step(run), &secrets, &error);
    if (status != WEIR_OK) { /* nothing can be hidden: the report waits for the secret with its step */
        kept->next = run->execution->signals;
        run->execution->signals = kept;
        run->signal_seq = 0;
        json_decref(report);
        step_run_wait_for_secret(run, status, error.message);
        return true;
    }
    kept_signal_free(kept);
    if (json_object_get(report, "error_code") != NULL) {
        fail_by_report(run, report, secrets);
    } else {
        complete_by_report(run, json_incref(json_object_get(report, "output")), secrets);
    }
    json_decref(report);
    step_secrets_free(secrets);
    return true;
}

bool step_callback_consume_at_end(struct step_run *run)
{
    enum ending ending = run->execution->ending;
    INVARIANT(ending != ENDING_NONE);
    if (ending == ENDING_ABANDONED || ending == ENDING_GIVEN_BACK) {
        return false; /* the next claim has the report */
    }
    run->stop = ending == ENDING_FAILED ? run->stop : STOP_ENDING;
    return step_callback_consume(run);
}

/* --- the wait --- */

void step_callback_wait(struct step_run *run)
{
    INVARIANT(run->phase == PHASE_RUNNING && step_may_call_back(run));
    enum ending ending = run->execution->ending;
    run->shortages = 0;
    if (ending == ENDING_NONE || ending == ENDING_GIVEN_BACK) {
        if (!step_callback_consume(run)) {
            step_run_report_waiting(run, step_run_step(run)->http.callback_us, NULL);
        }
    } else if (!step_callback_consume_at_end(run)) {
        step_run_discontinue(run);
    }
}

int64_t step_callback_due(const struct step_run *run)
{
    int64_t now_us = loop_now(&run->execution->runner->loop);
    bool has_all_reports = run->is_woken || (run->phase == PHASE_IDLE && run->resume_us <= now_us);
    return run->awaits_callback && !has_all_reports ? time_add(run->resume_us, STEP_CALLBACK_GRACE_US) : run->resume_us;
}

void step_callback_time_out(struct step_run *run)
{
    INVARIANT(run->phase == PHASE_SLEEPING && run->awaits_callback);
    run->awaits_callback = false;
    step_run_fail(run, "callback_timeout", "the function did not report its result within `callback`", false);
}
