/* cancel, retry, release, wake, dismiss, purge, workflow migrate, and a signal to many: the same act. It is done to the
 * executions of a list of ids, or to all that match a filter.
 *
 *     count -> --expect -> --dry-run -> ask -> chunks of BULK_CHUNK, each one transaction -> summary
 *
 * 1. The matching executions are counted, so that --expect and the question name a number.
 * 2. A dry run counts the executions that would be refused, and ends.
 * 3. Each chunk is one transaction: a large act must not hold locks for long, and a signal can end it between two chunks.
 * 4. The filter has an upper bound on the time of creation, so that executions that a retry makes never match the same
 *    command.
 *
 * By ids, each refusal counts as a failure; by filter, only an act that changed nothing does. One thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/progress.h"
#include "cli/signals.h"
#include "cli/verbs/signal_execution.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/terminate.h"
#include "cli/verbs/verb.h"
#include "store/bulk_act.h"

enum { BULK_ASK_ABOVE = 100 };

struct bulk {
    struct invocation *invocation;
    struct store *store;
    enum bulk_act act;
    struct act_order order;
    const char *done_text;  /* "cancelled" */
    const char *doing_text; /* "cancelling" */
    struct execution_filter filter;
    int64_t unchanged;           /* of those that the act reached, the ones that were as it makes them */
    struct bulk_matches matches; /* counted before anything is done; `refused` grows with the act */
    int64_t changed;
    int64_t requested; /* of the changed ones, those whose node must still end them (cancel) */
    enum weir_status first_refusal;
    struct weir_error refusal;
    json_t *items;        /* of those named by id: {"id", "act", "new_id"}; for -o json */
    json_t *to_terminate; /* ids of the cancelled executions; NULL: without --terminate */
};

/* The argument of a signal is its name, so a signal by this way has a filter. A signal to one execution goes another way
 * (verb_signal.c), since a service of Temporal may have to send it. */
static bool acts_on_ids(const struct bulk *bulk)
{
    return bulk->act != BULK_SIGNAL && bulk->invocation->argument_count > 0;
}

/* --- before --- */

/* Asks for the number of executions when there are many. Without a terminal it refuses. */
static enum weir_status confirm_bulk(struct bulk *bulk, struct weir_error *error)
{
    struct output *output = bulk->invocation->output;
    char question[160];
    char number[32];
    bool was_asked = false;
    const char *act = bulk_act_name(bulk->act);
    if (bulk->matches.matched <= BULK_ASK_ABOVE || invocation_has(bulk->invocation, "yes")) {
        return WEIR_OK;
    }
    (void)snprintf(number, sizeof number, "%" PRId64, bulk->matches.matched);
    (void)snprintf(question, sizeof question, "Type %s to %s them: ", number, act);
    if (output_ask(output, question, number, &was_asked)) {
        return WEIR_OK;
    }
    if (was_asked) {
        return error_set(error, WEIR_STOPPED, "nothing was changed");
    }
    error_set(error, WEIR_INVALID_ARGUMENT,
              "%s%s executions match; nothing was changed, because there is no terminal to confirm the act", number,
              bulk->matches.is_exact ? "" : "+");
    error_hint(error, "--yes acts without a question; --yes --expect %s acts only if the number is the same", number);
    return WEIR_INVALID_ARGUMENT;
}

/* --- the act --- */

static void add_result(struct bulk *bulk, const struct bulk_result *result)
{
    bulk->changed += (int64_t)result->changed;
    bulk->requested += (int64_t)result->requested;
    bulk->matches.refused += (int64_t)result->refused;
    bulk->unchanged += (int64_t)(result->matched - result->changed - result->refused);
    if (bulk->first_refusal == WEIR_OK && result->refused > 0) {
        bulk->first_refusal = result->first_refusal != WEIR_OK ? result->first_refusal : WEIR_ILLEGAL_STATE;
        bulk->refusal = result->refusal;
    }
}

/* "3 cancelled", "2 cancelled, 1 cancel requested". An execution that runs ends only when its engine has stopped it. */
static const char *changed_text(const struct bulk *bulk, char *to, size_t size)
{
    char requested[64] = "";
    int64_t ended = bulk->changed - bulk->requested;
    if (bulk->requested > 0) {
        (void)snprintf(requested, sizeof requested, "%s%" PRId64 " cancel requested", ended > 0 ? ", " : "",
                       bulk->requested);
    }
    if (bulk->requested > 0 && ended == 0) {
        text_copy(to, size, requested);
    } else {
        (void)snprintf(to, size, "%" PRId64 " %s%s", ended, bulk->done_text, requested);
    }
    return to;
}

static enum weir_status report_bulk_interrupt(const struct bulk *bulk, struct weir_error *error)
{
    error_set(error, WEIR_INTERRUPTED, "interrupted: %" PRId64 " of %" PRId64 "%s %s, %" PRId64 " refused", bulk->changed,
              bulk->matches.matched, bulk->matches.is_exact ? "" : "+", bulk->done_text, bulk->matches.refused);
    error_hint(error, "each execution was changed completely or not at all; the same command continues with the rest");
    return WEIR_INTERRUPTED;
}

/* Acts chunk by chunk. `after` is the last id of the chunk before. */
static enum weir_status act_on_matches(struct bulk *bulk, struct weir_error *error)
{
    struct bulk_result result = {.more = true};
    char after[UUID_TEXT_MAX] = "";
    while (result.more) {
        memset(&result, 0, sizeof result);
        enum weir_status status =
            store_bulk_ordered(bulk->store, bulk->act, &bulk->order, &bulk->filter, after, BULK_CHUNK, &result, error);
        if (status != WEIR_OK) {
            error_prefix(error, "%" PRId64 " of %" PRId64 " %s, then", bulk->changed, bulk->matches.matched,
                         bulk->done_text);
            return status;
        }
        add_result(bulk, &result);
        memcpy(after, result.last_id, sizeof after);
        bulk->filter.workspace_id = result.workspace_id;
        output_progress(bulk->invocation->output, bulk->doing_text, bulk->changed + bulk->matches.refused,
                        bulk->matches.is_exact ? bulk->matches.matched : 0);
        if (result.more && signals_count() > 0) {
            return report_bulk_interrupt(bulk, error);
        }
    }
    return WEIR_OK;
}

/* A line of its own in jsonl; in json an item of the answer. */
static enum weir_status print_bulk_item(struct bulk *bulk, const struct bulk_result *result, struct weir_error *error)
{
    json_t *item = bulk_act_item(bulk->act, result);
    if (item == NULL) {
        return error_out_of_memory(error);
    }
    if (bulk->invocation->output->format == OUTPUT_JSON) {
        return json_array_append_new(bulk->items, item) == 0 ? WEIR_OK : error_out_of_memory(error);
    }
    output_json(bulk->invocation->output, item);
    json_decref(item);
    return WEIR_OK;
}

/* Acts on one execution. A refusal does not end the command; a failure of the store does. */
static enum weir_status act_on_id(struct bulk *bulk, const char *id, struct weir_error *error)
{
    struct output *output = bulk->invocation->output;
    struct bulk_result result = {.matched = 0};
    char whole[UUID_TEXT_MAX]; /* a short id must name one execution, not the first that begins with it */
    struct execution_filter filter = {.id = whole};
    enum weir_status status = execution_complete_id(bulk->store, id, whole, error);
    if (status == WEIR_OK) {
        status = store_bulk_one(bulk->store, bulk->act, &bulk->order, &filter, &result, error);
    }
    if (status != WEIR_OK && weir_status_exit(status) >= 5) {
        return status;
    }
    if (status != WEIR_OK) { /* this id is refused; the other ids are tried */
        result = (struct bulk_result){.refused = 1, .first_refusal = status, .refusal = *error};
    }
    add_result(bulk, &result);
    if (result.changed > 0 && bulk->to_terminate != NULL &&
        json_array_append_new(bulk->to_terminate, json_string(whole)) != 0) {
        return error_out_of_memory(error);
    }
    if (result.refused > 0 && bulk->invocation->argument_count > 1) {
        output_report_sign(output, SIGN_BAD, "%s: %s", output_safe(output, id), result.refusal.message);
    }
    if (result.changed > 0 && bulk->act == BULK_RETRY && result.new_id[0] != '\0' && output->format == OUTPUT_TABLE) {
        output_print(output, "%s\n", result.new_id);
    } else if (result.changed > 0 && output->format != OUTPUT_TABLE) {
        return print_bulk_item(bulk, &result, error);
    }
    return WEIR_OK;
}

/* Checks each id and reports the refusals. */
static enum weir_status check_ids_for_dry_run(struct bulk *bulk, struct weir_error *error)
{
    for (size_t i = 0; i < bulk->invocation->argument_count; i++) {
        const char *id = bulk->invocation->arguments[i];
        enum weir_status status = bulk_act_rehearse_one(bulk->store, bulk->act, &bulk->order, id, error);
        if (status != WEIR_OK && weir_status_exit(status) >= 5) {
            return status;
        }
        if (status != WEIR_OK) {
            add_result(bulk, &(struct bulk_result){.refused = 1, .first_refusal = status, .refusal = *error});
        }
        if (status != WEIR_OK && bulk->invocation->argument_count > 1) {
            output_report_sign(bulk->invocation->output, SIGN_BAD, "%s: %s", output_safe(bulk->invocation->output, id),
                               error->message);
        }
    }
    return WEIR_OK;
}

/* Acts on the ids in their order; a signal ends the command between two. */
static enum weir_status act_on_ids(struct bulk *bulk, struct weir_error *error)
{
    for (size_t i = 0; i < bulk->invocation->argument_count; i++) {
        enum weir_status status = act_on_id(bulk, bulk->invocation->arguments[i], error);
        if (status != WEIR_OK) {
            return status;
        }
        if (signals_count() > 0 && i + 1 < bulk->invocation->argument_count) {
            return report_bulk_interrupt(bulk, error);
        }
    }
    return WEIR_OK;
}

/* --- after --- */

static void suggest_not_retried(const struct bulk *bulk)
{
    bool is_refused = bulk->act == BULK_RETRY && bulk->first_refusal == WEIR_CONFLICT;
    bool has_said_so = bulk->filter.retried == CONDITION_YES;
    if (!acts_on_ids(bulk) && !has_said_so && (bulk->matches.retried > 0 || is_refused)) {
        output_report(bulk->invocation->output, "retried=no in the filter leaves out executions that were retried already");
    }
}

/* Prints the counts: on stderr for people, on stdout as JSON. */
static enum weir_status print_bulk_summary(struct bulk *bulk, bool is_dry, struct weir_error *error)
{
    struct output *output = bulk->invocation->output;
    char text[160];
    if (output->format == OUTPUT_TABLE) {
        if (is_dry) {
            output_report(output, "would %s %" PRId64 "%s, %" PRId64 " refused: nothing was changed",
                          bulk_act_name(bulk->act), bulk->matches.matched - bulk->matches.refused,
                          bulk->matches.is_exact ? "" : "+", bulk->matches.refused);
        } else if (bulk->changed > 0) {
            output_report_sign(output, SIGN_FINE, "%s, %" PRId64 " refused", changed_text(bulk, text, sizeof text),
                               bulk->matches.refused);
            if (bulk->requested > 0 && bulk->to_terminate == NULL) {
                output_report(output,
                              "a running execution ends when its engine has stopped it; `weir wait ID` waits for it");
            }
        }
        suggest_not_retried(bulk);
        return WEIR_OK;
    }
    bool by_ids = acts_on_ids(bulk);
    if (output->format == OUTPUT_JSONL && by_ids && !is_dry) {
        return WEIR_OK; /* one line per id is there already */
    }
    json_t *summary = bulk_act_summary(bulk->act, &bulk->matches, bulk->changed, bulk->requested, is_dry);
    if (summary == NULL || (by_ids && !is_dry && json_object_set(summary, "items", bulk->items) != 0)) {
        json_decref(summary);
        return error_out_of_memory(error);
    }
    output_json(output, summary);
    json_decref(summary);
    return WEIR_OK;
}

/* By ids every refusal is a failure, because each id was named. By filter only an act that changed nothing is. A signal
 * that is repeated with its key has changed what it had to before. */
static enum weir_status judge_bulk(const struct bulk *bulk, struct weir_error *error)
{
    bool by_ids = acts_on_ids(bulk);
    bool has_effect = bulk->changed > 0 || (bulk->act == BULK_SIGNAL && bulk->unchanged > 0);
    if (bulk->matches.refused == 0 || (!by_ids && has_effect)) {
        return WEIR_OK;
    }
    *error = bulk->refusal;
    if (bulk->matches.refused > 1) {
        error_prefix(error, "%" PRId64 " refused, the first", bulk->matches.refused);
    }
    if (error->message[0] == '\0') {
        error_set(error, bulk->first_refusal, "the state of the execution does not allow it");
    }
    return bulk->first_refusal;
}

/* A filter with an id names one execution, as it would without --where. */
static enum weir_status complete_filter(struct bulk *bulk, int64_t now_us, struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    if (bulk->filter.id != NULL) {
        enum weir_status status = execution_complete_id(bulk->store, bulk->filter.id, whole, error);
        bulk->filter.id = status == WEIR_OK ? arena_copy_string(bulk->invocation->arena, whole) : NULL;
        return status;
    }
    bulk_act_complete_filter(bulk->act, now_us, &bulk->filter);
    return WEIR_OK;
}

/* Opens the store, reads the filter and counts the matching executions. */
static enum weir_status prepare_bulk(struct bulk *bulk, struct weir_error *error)
{
    const struct invocation *invocation = bulk->invocation;
    bool has_filter = invocation_has(invocation, "where") || invocation_has(invocation, "workspace");
    int64_t now_us = 0;
    if (has_filter == acts_on_ids(bulk)) {
        return invocation_usage_error(invocation, error, "`weir %s` needs %s", invocation->command->name,
                                      has_filter ? "either ids or a filter, not both" : "ids or --where");
    }
    enum weir_status status =
        verb_open_store(invocation, invocation_is_dry_run(invocation) ? STORE_READ : STORE_CHANGE, &bulk->store, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (!has_filter) {
        bulk->matches.matched = (int64_t)invocation->argument_count;
        bulk->matches.is_exact = true;
        return WEIR_OK;
    }
    status = page_read_filter(invocation, bulk->store, &bulk->filter, error);
    if (status == WEIR_OK) {
        status = store_time(bulk->store, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = complete_filter(bulk, now_us, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    return bulk_act_count(bulk->store, &bulk->filter, &bulk->matches, error);
}

/* Reports the number that the act would change, and changes nothing. */
static enum weir_status run_bulk_dry(struct bulk *bulk, struct weir_error *error)
{
    bool by_ids = acts_on_ids(bulk);
    enum weir_status status =
        by_ids ? check_ids_for_dry_run(bulk, error)
               : bulk_act_rehearse(bulk->store, bulk->act, &bulk->order, &bulk->filter, &bulk->matches, error);
    if (status == WEIR_OK) {
        status = print_bulk_summary(bulk, true, error);
    }
    return status == WEIR_OK && by_ids ? judge_bulk(bulk, error) : status;
}

/* The steps of the act, as the comment at the top numbers them. */
static enum weir_status run_bulk(struct bulk *bulk, struct weir_error *error)
{
    const struct invocation *invocation = bulk->invocation;
    bool by_ids = acts_on_ids(bulk);
    enum weir_status status = prepare_bulk(bulk, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = bulk_act_check_waits(bulk->act, &bulk->order, &bulk->filter, error);
    if (status == WEIR_OK && bulk->act == BULK_MIGRATE && !by_ids) {
        status = bulk_act_check_migration(&bulk->order, &bulk->filter, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (!by_ids) {
        output_report(invocation->output, "%" PRId64 "%s %s", bulk->matches.matched, bulk->matches.is_exact ? "" : "+",
                      bulk->matches.matched == 1 ? "execution matches" : "executions match");
    }
    status = bulk_act_expect(&bulk->matches, invocation_number(invocation, "expect", -1), error);
    if (status != WEIR_OK) {
        return status;
    }
    if (invocation_is_dry_run(invocation)) {
        return run_bulk_dry(bulk, error);
    }
    if (bulk->matches.matched == 0 && bulk->matches.is_exact) {
        return print_bulk_summary(bulk, false, error);
    }
    status = confirm_bulk(bulk, error);
    if (status != WEIR_OK) {
        return status;
    }
    signals_catch();
    status = by_ids ? act_on_ids(bulk, error) : act_on_matches(bulk, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = print_bulk_summary(bulk, false, error);
    if (status == WEIR_OK && bulk->to_terminate != NULL) {
        status = terminate_executions(bulk->invocation, bulk->store, bulk->to_terminate, error);
    }
    return status == WEIR_OK ? judge_bulk(bulk, error) : status;
}

/* Runs one act and releases its memory. */
static enum weir_status bulk_verb(struct invocation *invocation, enum bulk_act act, const char *done_text,
                                  const char *doing_text, struct weir_error *error)
{
    bool keeps = act == BULK_RETRY && invocation_has(invocation, "keep-finished");
    const char *waits_for = act == BULK_WAKE ? invocation_text(invocation, "waiting-for") : NULL;
    if (bulk_act_check_wait(waits_for, error) != WEIR_OK) { /* before a dry run counts what the act would refuse */
        return WEIR_INVALID_ARGUMENT;
    }
    const char *from = act == BULK_RETRY ? invocation_text(invocation, "from") : NULL;
    bool terminates = act == BULK_CANCEL && invocation_has(invocation, "terminate");
    struct bulk bulk = {.invocation = invocation,
                        .act = act,
                        .done_text = done_text,
                        .doing_text = doing_text,
                        .order = {.keeps_finished = keeps || from != NULL,
                                  .from = from,
                                  .waits_for = waits_for,
                                  .to_version = act == BULK_MIGRATE ? (int)invocation_number(invocation, "to", 0) : 0},
                        .items = json_array(),
                        .to_terminate = terminates ? json_array() : NULL};
    enum weir_status status = bulk.items == NULL || (terminates && bulk.to_terminate == NULL) ? error_out_of_memory(error)
                                                                                              : run_bulk(&bulk, error);
    json_decref(bulk.items);
    json_decref(bulk.to_terminate);
    store_close(bulk.store);
    return status;
}

enum weir_status verb_cancel(struct invocation *invocation, struct weir_error *error)
{
    if (invocation_has(invocation, "terminate") && invocation->argument_count == 0) {
        return invocation_usage_error(invocation, error, "--terminate needs the ids of executions");
    }
    return bulk_verb(invocation, BULK_CANCEL, "cancelled", "cancelling", error);
}

enum weir_status verb_retry(struct invocation *invocation, struct weir_error *error)
{
    return bulk_verb(invocation, BULK_RETRY, "retried", "retrying", error);
}

enum weir_status verb_release(struct invocation *invocation, struct weir_error *error)
{
    return bulk_verb(invocation, BULK_RELEASE, "released", "releasing", error);
}

/* By filter only WAITING executions; one that waits in its node is named by its id. */
enum weir_status verb_wake(struct invocation *invocation, struct weir_error *error)
{
    return bulk_verb(invocation, BULK_WAKE, "woken", "waking", error);
}

enum weir_status verb_dismiss(struct invocation *invocation, struct weir_error *error)
{
    return bulk_verb(invocation, BULK_DISMISS, "dismissed", "dismissing", error);
}

enum weir_status verb_purge(struct invocation *invocation, struct weir_error *error)
{
    return bulk_verb(invocation, BULK_PURGE, "purged", "purging", error);
}

enum weir_status verb_workflow_migrate(struct invocation *invocation, struct weir_error *error)
{
    if (!invocation_has(invocation, "to")) {
        return invocation_usage_error(invocation, error, "`weir workflow migrate` needs --to VERSION");
    }
    return bulk_verb(invocation, BULK_MIGRATE, "migrated", "migrating", error);
}

enum weir_status bulk_signal(struct invocation *invocation, const struct signal_request *request, struct weir_error *error)
{
    if (request->key == NULL) {
        return invocation_usage_error(invocation, error,
                                      "`weir signal --where` needs --key KEY: each execution gets it once");
    }
    struct bulk bulk = {.invocation = invocation,
                        .act = BULK_SIGNAL,
                        .done_text = "signalled",
                        .doing_text = "signalling",
                        .order = {.signal_name = request->name, .signal_data = request->data, .signal_key = request->key},
                        .items = json_array()};
    enum weir_status status = signal_request_check(request, error);
    if (status == WEIR_OK) {
        status = bulk.items == NULL ? error_out_of_memory(error) : run_bulk(&bulk, error);
    }
    json_decref(bulk.items);
    store_close(bulk.store);
    return status;
}
