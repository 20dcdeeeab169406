/* `weir store init`, `migrate`, `check`, `backup`, `plan`.
 *
 * Each opens the store without demanding its present schema, where that is the purpose. Long calls report their progress
 * by a callback. Only the backup lets a signal end it, between two chunks, because half a copy must not stay; a migration
 * and a check run to their end. A dry run prints the migrations and applies none. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "assemble.h"
#include "base/error.h"
#include "cli/output/progress.h"
#include "cli/signals.h"
#include "cli/verbs/verb.h"

/* --- progress --- */

struct long_call {
    struct output *output;
    const char *what; /* "checking" */
    bool may_stop;    /* Ctrl-C ends it between two of its parts */
};

/* Called by the store in a long call; returns whether the call may continue. */
static bool report_store_progress(void *context, int64_t done, int64_t total)
{
    const struct long_call *call = context;
    output_progress(call->output, call->what, done, total);
    return !call->may_stop || signals_count() == 0;
}

/* --- migrations --- */

static enum weir_status read_migrations(struct invocation *invocation, struct store *store,
                                        const struct store_migration **ret_migrations, size_t *ret_count,
                                        size_t *ret_missing, struct weir_error *error)
{
    enum weir_status status = store_plan(store, invocation->arena, ret_migrations, ret_count, error);
    *ret_missing = 0;
    for (size_t i = 0; status == WEIR_OK && i < *ret_count; i++) {
        *ret_missing += !(*ret_migrations)[i].applied;
    }
    return status;
}

/* *ret_count: how many were applied, or would be. */
static enum weir_status migrate_store(struct invocation *invocation, struct store *store, int *ret_count,
                                      struct weir_error *error)
{
    const struct store_migration *migrations = NULL;
    size_t count = 0;
    size_t missing = 0;
    enum weir_status status = read_migrations(invocation, store, &migrations, &count, &missing, error);
    for (size_t i = 0; status == WEIR_OK && i < count; i++) {
        if (!migrations[i].applied) {
            output_report(invocation->output, "%s %s.sql", invocation_is_dry_run(invocation) ? "would apply" : "applying",
                          migrations[i].name);
        }
    }
    if (status == WEIR_OK && missing == 0 && invocation_is_dry_run(invocation)) {
        output_report(invocation->output, "nothing to apply: the store is up to date");
    }
    *ret_count = (int)missing;
    if (status == WEIR_OK && missing > 0 && !invocation_is_dry_run(invocation)) {
        struct long_call call = {.output = invocation->output, .what = "migrating"};
        store_set_progress(store, report_store_progress, &call);
        status = store_migrate(store, ret_count, error);
        store_set_progress(store, NULL, NULL);
        output_progress_end(invocation->output);
    }
    return status;
}

static enum weir_status print_migrated(struct invocation *invocation, struct store *store, int applied,
                                       struct weir_error *error)
{
    struct output *output = invocation->output;
    if (output->format == OUTPUT_TABLE && !invocation_is_dry_run(invocation)) {
        output_print(output, "%s\n", store_url(store));
    }
    return verb_print_act(invocation, json_pack("{s:s, s:i}", "store", store_url(store), "applied", applied), error);
}

enum weir_status verb_store_init(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    int applied = 0;
    const char *role = invocation_text(invocation, "role");
    if (invocation_is_dry_run(invocation)) {
        char url[512];
        store_url_shown(settings_text(invocation->settings, SETTING_STORE), url, sizeof url);
        output_report(invocation->output, "would make %s if it is missing, and migrate it%s%s",
                      output_safe(invocation->output, url), role == NULL ? "" : "; would grant its rights to ",
                      role == NULL ? "" : output_safe(invocation->output, role));
        return verb_print_act(invocation, json_pack("{s:s, s:s?}", "store", url, "role", role), error);
    }
    enum weir_status status = verb_open_store(invocation, STORE_CREATE, &store, error);
    if (status == WEIR_OK) {
        status = migrate_store(invocation, store, &applied, error);
    }
    if (status == WEIR_OK && role != NULL) {
        status = assemble_grant_role(store, role, error);
    }
    if (status == WEIR_OK) {
        output_report_sign(invocation->output, SIGN_FINE,
                           applied > 0 ? "the store is ready" : "the store exists and is up to date");
        status = print_migrated(invocation, store, applied, error);
    }
    store_close(store);
    return status;
}

enum weir_status verb_store_migrate(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    int applied = 0;
    enum weir_status status = verb_open_store(invocation, STORE_MEND, &store, error);
    if (status == WEIR_OK) {
        status = migrate_store(invocation, store, &applied, error);
    }
    if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        output_report_sign(invocation->output, SIGN_FINE, "%d %s applied", applied,
                           applied == 1 ? "migration" : "migrations");
    }
    if (status == WEIR_OK) {
        status = print_migrated(invocation, store, applied, error);
    }
    store_close(store);
    return status;
}

static enum weir_status print_plan_json(struct invocation *invocation, const struct store_migration *migrations,
                                        size_t count, struct weir_error *error)
{
    json_t *items = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(items, json_pack("{s:i, s:s, s:b, s:s}", "version", migrations[i].version, "name",
                                                     migrations[i].name, "applied", migrations[i].applied, "sql",
                                                     migrations[i].sql));
    }
    json_t *page =
        json_pack("{s:o, s:n, s:I, s:b}", "items", items, "next_cursor", "count", (json_int_t)count, "count_is_exact", 1);
    if (page == NULL) {
        return error_out_of_memory(error);
    }
    (void)output_page(invocation->output, page);
    json_decref(page);
    return WEIR_OK;
}

enum weir_status verb_store_plan(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    const struct store_migration *migrations = NULL;
    size_t count = 0;
    size_t missing = 0;
    enum weir_status status = verb_open_store(invocation, STORE_MEND, &store, error);
    if (status == WEIR_OK) {
        status = read_migrations(invocation, store, &migrations, &count, &missing, error);
    }
    if (status == WEIR_OK && invocation->output->format != OUTPUT_TABLE) {
        status = print_plan_json(invocation, migrations, count, error);
    } else if (status == WEIR_OK) {
        for (size_t i = 0; i < count; i++) {
            output_print(invocation->output, "-- %s (%s)\n", migrations[i].name,
                         migrations[i].applied ? "applied" : "not applied");
            output_print(invocation->output, "%s\n", migrations[i].sql);
        }
        output_report(invocation->output, "%zu of %zu applied", count - missing, count);
    }
    store_close(store);
    return status;
}

/* --- check, backup --- */

static enum weir_status print_problems(struct invocation *invocation, const json_t *problems, struct weir_error *error)
{
    struct output *output = invocation->output;
    size_t count = json_array_size(problems);
    size_t i;
    json_t *problem;
    if (output->format != OUTPUT_TABLE) {
        json_t *answer = json_pack("{s:b, s:O}", "ok", count == 0, "problems", problems);
        if (answer == NULL) {
            return error_out_of_memory(error);
        }
        output_json(output, answer);
        json_decref(answer);
    } else {
        json_array_foreach(problems, i, problem)
        {
            output_print(output, "%s %s\n", output_sign_coloured(output, SIGN_BAD),
                         output_safe(output, json_string_value(problem)));
        }
        if (count == 0) {
            output_print(output, "%s the store is whole and the books balance\n", output_sign_coloured(output, SIGN_FINE));
        }
    }
    if (count > 0) {
        error_set(error, WEIR_FAILED, "%zu %s", count, count == 1 ? "problem" : "problems");
        error_hint(error, "stop all nodes, keep a copy of the store, and compare with the last backup");
        return WEIR_FAILED;
    }
    return WEIR_OK;
}

enum weir_status verb_store_check(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *problems = NULL;
    enum weir_status status = verb_open_store(invocation, STORE_MEND, &store, error);
    if (status == WEIR_OK) {
        status = store_require_schema(store, error);
    }
    if (status == WEIR_OK) {
        struct long_call call = {.output = invocation->output, .what = "checking"};
        store_set_progress(store, report_store_progress, &call);
        status = store_check(store, &problems, error);
        output_progress_end(invocation->output);
    }
    if (status == WEIR_OK) {
        status = print_problems(invocation, problems, error);
    }
    json_decref(problems);
    store_close(store);
    return status;
}

static enum weir_status print_backup(const struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return verb_print_act(
        invocation, json_pack("{s:s, s:s}", "store", store_url(store), "path", invocation_argument(invocation, 0)), error);
}

enum weir_status verb_store_backup(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    const char *path = invocation_argument(invocation, 0);
    enum weir_status status = verb_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK && invocation_is_dry_run(invocation)) {
        output_report(invocation->output, "would copy %s to %s", store_url(store), output_safe(invocation->output, path));
        status = print_backup(invocation, store, error);
    } else if (status == WEIR_OK) {
        struct long_call call = {.output = invocation->output, .what = "copying pages", .may_stop = true};
        signals_catch(); /* half a copy must not stay, because it could be taken for a whole one */
        store_set_progress(store, report_store_progress, &call);
        status = store_backup(store, path, error);
        output_progress_end(invocation->output);
        if (status == WEIR_OK) {
            output_report_sign(invocation->output, SIGN_FINE, "copied to %s", output_safe(invocation->output, path));
            status = print_backup(invocation, store, error);
        }
    }
    store_close(store);
    return status;
}
