/* `weir import`: enqueues what waits in the queue of nFlow or Riven.
 *
 *     source (store/import_source.h) -> import_row.c -> a set -> store_enqueue(), or dry_run.c -> import_report.c
 *
 * 1. Without --apply or --yes nothing is written: each row is read and checked against the store, and counted.
 * 2. Rows come in batches of one snapshot of the source. A batch is one set, and a set is one transaction of the store; a
 *    batch with large data is several sets, so that memory has a bound.
 * 3. Each row has the key `import:SYSTEM:ID`. So a command that was killed, or lost its answer, is repeated, and
 *    enqueues only the rest.
 * 4. A signal ends the command between two batches.
 *
 * The source is only read. One thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/progress.h"
#include "cli/signals.h"
#include "cli/verbs/dry_run.h"
#include "cli/verbs/import_report.h"
#include "cli/verbs/verb.h"
#include "store/filter.h"
#include "store/import_source.h"

/* The texts of a set: sent when they reach SET_BYTES. One more row fits then, with its variables as texts and as params. */
enum { SET_BYTES = 4 * 1024 * 1024, SET_ARENA_BYTES = SET_BYTES + 8 * IMPORT_DATA_BYTES_MAX };

struct import {
    struct invocation *invocation;
    struct store *store;
    struct import_source *source;
    struct import_rules rules;
    struct dry_run *dry_run; /* NULL: the rows are enqueued */
    struct arena arena;      /* of the open set */
    struct import_row rows[IMPORT_BATCH];
    struct enqueue_request requests[IMPORT_BATCH];
    struct enqueue_result results[IMPORT_BATCH];
    struct import_choice choices[IMPORT_BATCH];
    const char *row_ids[IMPORT_BATCH];
    size_t count; /* of the open set */
    int64_t open; /* rows of the source that have not ended */
    int64_t read;
    int64_t now_us;
    struct import_report report;
};

/* --- flags --- */

static bool is_rehearsal(const struct invocation *invocation)
{
    bool is_ordered = invocation_has(invocation, "apply") || invocation_has(invocation, "yes");
    return invocation_is_dry_run(invocation) || !is_ordered;
}

static enum weir_status read_system(const struct invocation *invocation, struct import_rules *rules,
                                    struct weir_error *error)
{
    static const char *const names[] = {[IMPORT_NFLOW] = "nflow", [IMPORT_RIVEN] = "riven"};
    const char *name = invocation_argument(invocation, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            rules->system = (enum import_system)i;
            rules->system_name = names[i];
            return WEIR_OK;
        }
    }
    return invocation_usage_error(invocation, error, "weir imports nothing from \"%s\", only from nflow and riven", name);
}

static enum weir_status read_maps(const struct invocation *invocation, struct import_rules *rules, struct weir_error *error)
{
    rules->maps = invocation_texts(invocation, "map", &rules->map_count);
    for (size_t i = 0; i < rules->map_count; i++) {
        const char *mark = strchr(rules->maps[i], '=');
        if (mark == NULL || mark == rules->maps[i] || mark[1] == '\0') {
            return invocation_usage_error(invocation, error, "--map \"%s\" is not TYPE=WORKFLOW", rules->maps[i]);
        }
    }
    return WEIR_OK;
}

static enum weir_status read_import_flags(const struct invocation *invocation, struct import_rules *rules,
                                          struct weir_error *error)
{
    enum weir_status status = read_system(invocation, rules, error);
    if (status == WEIR_OK) {
        status = read_maps(invocation, rules, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    rules->workspace = invocation_text(invocation, "workspace");
    rules->executor_group = invocation_text(invocation, "executor-group");
    rules->default_group = settings_text(invocation->settings, SETTING_EXECUTOR_GROUP);
    rules->takes_begun = invocation_has(invocation, "begun");
    if (!invocation_has(invocation, "from")) {
        return invocation_usage_error(invocation, error, "`weir import` needs --from postgres://...");
    }
    if (rules->system == IMPORT_NFLOW && rules->workspace == NULL) {
        return invocation_usage_error(invocation, error, "nFlow has no tenants: name the workspace of its rows by -w NAME");
    }
    if (rules->system == IMPORT_RIVEN && invocation_has(invocation, "source-group")) {
        return invocation_usage_error(invocation, error, "Riven has no executor groups: --source-group is for nFlow");
    }
    return WEIR_OK;
}

static enum weir_status open_source(struct import *import, struct weir_error *error)
{
    const struct invocation *invocation = import->invocation;
    const char *since = invocation_text(invocation, "since");
    struct import_options options = {
        .system = import->rules.system,
        .url = invocation_text(invocation, "from"),
        .group = invocation_text(invocation, "source-group"),
        .deadline_us = invocation_number(invocation, "timeout", 0),
    };
    enum weir_status status = WEIR_OK;
    if (since != NULL) {
        status = filter_parse_time("--since", since, import->now_us, &options.since_us, error);
    }
    return status == WEIR_OK ? import_source_open(&options, &import->source, error) : status;
}

/* --- sets --- */

/* Counts the outcome of one request of the set. */
static void note_result(struct import *import, size_t at, enum weir_status status, bool is_known,
                        const struct weir_error *refusal)
{
    struct import_choice *choice = &import->choices[at];
    choice->outcome = status != WEIR_OK ? IMPORT_REFUSED : is_known ? IMPORT_KNOWN : IMPORT_ENQUEUED;
    import_report_add(&import->report, choice, status == WEIR_OK ? NULL : weir_status_name(status),
                      status == WEIR_OK ? NULL : refusal->message, import->row_ids[at], 1);
}

/* A dry run: the checks of an enqueue, but for the key. */
static enum weir_status rehearse_set(struct import *import, struct weir_error *error)
{
    for (size_t i = 0; i < import->count; i++) {
        struct weir_error refusal = {.status = WEIR_OK};
        enum weir_status status = dry_run_enqueue(import->dry_run, import->store, &import->requests[i], &refusal);
        if (status != WEIR_OK && (status == WEIR_OUT_OF_MEMORY || !dry_run_is_refusal(status))) {
            *error = refusal;
            return status;
        }
        note_result(import, i, status, false, &refusal);
    }
    return WEIR_OK;
}

/* Enqueues the set in one transaction. The ids are made here, so that the driver may repeat a call without an answer. */
static enum weir_status import_enqueue_set(struct import *import, struct weir_error *error)
{
    char ids[IMPORT_BATCH][UUID_TEXT_MAX];
    enum weir_status status = store_time(import->store, &import->now_us, error);
    for (size_t i = 0; i < import->count && status == WEIR_OK; i++) {
        uuid_make(import->now_us, ids[i]);
        import->requests[i].id = ids[i];
        import->requests[i].id_is_new = true;
    }
    if (status == WEIR_OK) {
        memset(import->results, 0, import->count * sizeof import->results[0]);
        status = store_enqueue(import->store, import->requests, import->count, import->results, error);
    }
    for (size_t i = 0; i < import->count && status == WEIR_OK; i++) {
        const struct enqueue_result *result = &import->results[i];
        note_result(import, i, result->status, result->duplicate, &result->error);
    }
    return status;
}

static enum weir_status send_import_set(struct import *import, struct weir_error *error)
{
    enum weir_status status = import->count == 0        ? WEIR_OK
                              : import->dry_run != NULL ? rehearse_set(import, error)
                                                        : import_enqueue_set(import, error);
    import->count = 0;
    arena_reset(&import->arena);
    return status;
}

/* --- rows --- */

/* Adds the row to the set, or counts why it is not in it. */
static enum weir_status take_row(struct import *import, const struct import_row *row, struct weir_error *error)
{
    size_t at = import->count;
    struct import_choice *choice = &import->choices[at];
    enum weir_status status = import_row_read(row, &import->rules, &import->arena, &import->requests[at], choice, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (choice->outcome != IMPORT_ENQUEUED) {
        import_report_add(&import->report, choice, NULL, NULL, row->id, 1);
        return WEIR_OK;
    }
    import->row_ids[at] = row->id;
    import->count++;
    return import->arena.used_bytes >= SET_BYTES ? send_import_set(import, error) : WEIR_OK;
}

static enum weir_status import_take_rows(struct import *import, struct weir_error *error)
{
    size_t count = 1;
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && count > 0 && signals_count() == 0) {
        status = import_source_next(import->source, import->rows, &count, error);
        for (size_t i = 0; i < count && status == WEIR_OK; i++) {
            status = take_row(import, &import->rows[i], error);
        }
        if (status == WEIR_OK) {
            status = send_import_set(import, error);
        }
        import->read += status == WEIR_OK ? (int64_t)count : 0;
        output_progress(import->invocation->output, import->dry_run != NULL ? "checked" : "imported", import->read,
                        import->open);
    }
    output_progress_end(import->invocation->output);
    return status;
}

static void note_ended(void *context, const char *type, const char *state, int64_t count)
{
    struct import *import = context;
    const struct import_choice choice = {.outcome = IMPORT_STAYS,
                                         .reason = IMPORT_ENDED,
                                         .type = type == NULL ? "-" : type,
                                         .state = state == NULL ? "-" : state};
    import_report_add(&import->report, &choice, NULL, NULL, NULL, count);
}

/* --- the end --- */

/* The sentence behind the table. Refused rows make the command fail, as those of `weir enqueue -` do. */
static enum weir_status report_import_end(struct import *import, struct weir_error *error)
{
    const int64_t *totals = import->report.totals;
    struct output *output = import->invocation->output;
    const char *would = import->dry_run != NULL ? " would be" : "";
    if (import->report.cut > 0) {
        output_report_sign(output, SIGN_WARN, "%" PRId64 " priorities are outside of %d to %d and%s cut",
                           import->report.cut, PRIORITY_LEAST, PRIORITY_MOST,
                           import->dry_run != NULL ? " would be" : " were");
    }
    if (totals[IMPORT_REFUSED] > 0) {
        error_set(error, WEIR_FAILED, "%" PRId64 " rows%s refused, %" PRId64 "%s enqueued", totals[IMPORT_REFUSED],
                  import->dry_run != NULL ? " would be" : " were", totals[IMPORT_ENQUEUED], would);
        error_hint(error, "the table has the reasons; --map TYPE=WORKFLOW names the workflow of a type; the same command "
                          "again enqueues only what is missing");
        return WEIR_FAILED;
    }
    output_report_sign(output, SIGN_FINE, "%" PRId64 "%s enqueued, %" PRId64 " imported earlier, %" PRId64 " stay%s",
                       totals[IMPORT_ENQUEUED], would, totals[IMPORT_KNOWN], totals[IMPORT_STAYS],
                       import->dry_run != NULL ? "; --apply enqueues them" : "");
    return WEIR_OK;
}

static enum weir_status print_import_report(struct import *import, struct weir_error *error)
{
    struct output *output = import->invocation->output;
    json_t *page = import_report_json(&import->report, import->dry_run != NULL);
    if (page == NULL) {
        return error_out_of_memory(error);
    }
    if (!output_page(output, page)) {
        if (import->report.line_count > 0) {
            import_report_print(output, page);
        } else {
            output_report(output, "the source has no row");
        }
    }
    json_decref(page);
    return WEIR_OK;
}

/* The number of rows that are enqueued for good, in front of an error that ended the import. */
static enum weir_status report_import_stop(struct import *import, enum weir_status status, struct weir_error *error)
{
    int64_t done = import->report.totals[IMPORT_ENQUEUED];
    if (import->dry_run == NULL && status != WEIR_OK) {
        error_prefix(error, "%" PRId64 " rows were enqueued, then", done);
        if (status == WEIR_COMMIT_UNKNOWN) {
            error_hint(error, "the same command again enqueues what is missing, and nothing twice");
        }
    }
    if (status == WEIR_OK && signals_count() > 0) {
        error_set(error, WEIR_INTERRUPTED, "interrupted: %" PRId64 " rows%s enqueued", done,
                  import->dry_run != NULL ? " would be" : " were");
        error_hint(error, "the same command again enqueues what is missing, and nothing twice");
        return WEIR_INTERRUPTED;
    }
    return status;
}

static enum weir_status run_import(struct import *import, struct weir_error *error)
{
    enum weir_status status = store_time(import->store, &import->now_us, error);
    if (status == WEIR_OK) {
        status = open_source(import, error);
    }
    if (status == WEIR_OK) {
        status = import_source_count(import->source, note_ended, import, &import->open, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    signals_catch();
    status = report_import_stop(import, import_take_rows(import, error), error);
    if (status == WEIR_OK) {
        status = print_import_report(import, error);
    }
    return status == WEIR_OK ? report_import_end(import, error) : status;
}

enum weir_status verb_import(struct invocation *invocation, struct weir_error *error)
{
    struct import *import = calloc(1, sizeof *import);
    if (import == NULL) {
        return error_out_of_memory(error);
    }
    bool is_dry = is_rehearsal(invocation);
    import->invocation = invocation;
    arena_init(&import->arena, SET_ARENA_BYTES);
    enum weir_status status = read_import_flags(invocation, &import->rules, error);
    if (status == WEIR_OK && is_dry && (import->dry_run = dry_run_open()) == NULL) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, is_dry ? STORE_READ : STORE_CHANGE, &import->store, error);
    }
    if (status == WEIR_OK) {
        status = run_import(import, error);
    }
    import_source_close(import->source);
    store_close(import->store);
    dry_run_close(import->dry_run);
    arena_close(&import->arena);
    free(import);
    return status;
}
