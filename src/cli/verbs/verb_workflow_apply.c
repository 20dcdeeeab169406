/* `weir workflow apply`.
 *
 * All files are read, checked and written in their canonical form before any store is opened, so a mistake in one of them
 * publishes none. Each is then published by itself, in the order of the command line. A dry run asks the store what it
 * would change, and needs none. The store makes a new version only when the text differs from the newest one. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/arguments/input.h"
#include "cli/verbs/verb.h"
#include "definition/definition.h"

_Static_assert((int)DEFINITION_BYTES_MAX <= (int)DEFINITION_SOURCE_BYTES_MAX, "a store keeps every file that is published");

struct applied_file {
    const char *name; /* as messages name it */
    struct text source;
    struct text canonical;
    struct definition *definition;
};

struct apply {
    struct invocation *invocation;
    struct applied_file *files;
    size_t count;
    json_t *answers; /* of several files, where the answer is JSON */
};

/* --- answers --- */

/* "  deletes the schedules a, b"; nothing without one. */
static size_t report_published_change(struct output *output, const struct published *published,
                                      enum published_change change, const char *verb)
{
    struct text names = {.max = PUBLISHED_SCHEDULES_MAX * (SCHEDULE_NAME_MAX + 2)};
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    for (size_t i = 0; i < published->schedule_count && status == WEIR_OK; i++) {
        if (published->schedules[i].change == change) {
            status = text_format(&names, "%s%s", count == 0 ? "" : ", ", published->schedules[i].name);
            count++;
        }
    }
    if (status == WEIR_OK && count > 0) {
        output_report(output, "  %s %s %s", verb, count == 1 ? "the schedule" : "the schedules", names.data);
    }
    text_close(&names);
    return count;
}

static void report_schedules(struct output *output, const struct published *published)
{
    size_t added = report_published_change(output, published, SCHEDULE_ADDED, "adds");
    (void)report_published_change(output, published, SCHEDULE_CHANGED, "changes");
    size_t deleted = report_published_change(output, published, SCHEDULE_DELETED, "deletes");
    if (added > 0 && deleted > 0) {
        output_report(output, "  a schedule with another name is a new one: it has no pause and none of the times before");
    }
}

/* Takes the reference. True: the caller prints for people. */
static enum weir_status put_apply_answer(struct apply *apply, json_t *answer, bool *ret_is_text, struct weir_error *error)
{
    *ret_is_text = apply->invocation->output->format == OUTPUT_TABLE;
    if (apply->count == 1) {
        (void)output_object(apply->invocation->output, answer);
        json_decref(answer);
        return WEIR_OK;
    }
    return json_array_append_new(apply->answers, answer) == 0 ? WEIR_OK : error_out_of_memory(error);
}

static enum weir_status report_published(struct apply *apply, const struct definition *definition,
                                         const struct published *published, struct weir_error *error)
{
    bool is_text = false;
    json_t *answer = json_pack("{s:s, s:s?, s:i, s:b}", "name", definition->name, "workspace", definition->workspace,
                               "version", published->version, "unchanged", published->unchanged);
    if (answer == NULL || !published_put_schedules(published, answer)) {
        json_decref(answer);
        return error_out_of_memory(error);
    }
    enum weir_status status = put_apply_answer(apply, answer, &is_text, error);
    if (status == WEIR_OK && is_text) {
        output_print(apply->invocation->output, "%s v%d %s\n", definition->name, published->version,
                     published->unchanged ? "unchanged" : "new");
        report_schedules(apply->invocation->output, published);
    }
    return status;
}

/* `published`: what the store would answer; NULL = it did not, and `reason` has the cause. */
static enum weir_status report_valid(struct apply *apply, const struct applied_file *file,
                                     const struct published *published, const char *reason, struct weir_error *error)
{
    struct output *output = apply->invocation->output;
    const struct definition *definition = file->definition;
    bool is_text = false;
    char steps[32];
    json_t *answer =
        json_pack("{s:s, s:s?, s:b}", "name", definition->name, "workspace", definition->workspace, "dry_run", 1);
    if (answer == NULL || (published != NULL && !published_put_schedules(published, answer))) {
        json_decref(answer);
        return error_out_of_memory(error);
    }
    (void)snprintf(steps, sizeof steps, "%zu %s", definition->count, definition->count == 1 ? "step" : "steps");
    enum weir_status status = put_apply_answer(apply, answer, &is_text, error);
    if (status == WEIR_OK && is_text) {
        output_report_sign(output, SIGN_FINE, "%s is valid: %s, %s; not published", output_safe(output, file->name),
                           definition->name, definition->temporal != NULL ? "a workflow on Temporal" : steps);
        if (published != NULL) {
            report_schedules(output, published);
        } else if (definition->schedule_count > 0) {
            output_report(output, "  its schedules were not compared with the store: %s", output_safe(output, reason));
        }
    }
    return status;
}

/* --- files --- */

static enum weir_status read_applied_file(const char *path, struct applied_file *file, struct weir_error *error)
{
    file->name = strcmp(path, "-") == 0 ? "stdin" : path;
    file->source.max = DEFINITION_BYTES_MAX;
    file->canonical.max = DEFINITION_MEMORY_BYTES_MAX;
    enum weir_status status = input_read(path, &file->source, error);
    if (status == WEIR_PARAMS_TOO_LARGE) { /* input_read() reads params, too */
        status = error->status = WEIR_INVALID_DEFINITION;
        error_hint(error, "keep long scripts and data in files of their own, and let steps name those");
    }
    if (status == WEIR_OK) {
        const char *text = file->source.data != NULL ? file->source.data : "";
        status = definition_read(text, file->source.length, file->name, &file->definition, error);
    }
    return status == WEIR_OK ? definition_write(file->definition, &file->canonical, error) : status;
}

static bool is_same_workflow(const struct definition *left, const struct definition *right)
{
    const char *owner = left->workspace != NULL ? left->workspace : "";
    return strcmp(left->name, right->name) == 0 && strcmp(owner, right->workspace != NULL ? right->workspace : "") == 0;
}

/* Two files of one workflow would be two versions, of which the first is never used. */
static enum weir_status refuse_same_workflow(const struct apply *apply, size_t place, struct weir_error *error)
{
    const struct applied_file *file = &apply->files[place];
    for (size_t i = 0; i < place; i++) {
        if (is_same_workflow(apply->files[i].definition, file->definition)) {
            (void)error_set(error, WEIR_INVALID_ARGUMENT, "%s and %s both define the workflow %s", apply->files[i].name,
                            file->name, file->definition->name);
            error_hint(error, "leave one of them out; nothing was published");
            return WEIR_INVALID_ARGUMENT;
        }
    }
    return WEIR_OK;
}

static enum weir_status read_applied_files(struct apply *apply, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < apply->count && status == WEIR_OK; i++) {
        status = read_applied_file(apply->invocation->arguments[i], &apply->files[i], error);
        if (status == WEIR_OK) {
            status = refuse_same_workflow(apply, i, error);
        }
    }
    return status;
}

/* --- the store --- */

/* A refusal of the store gets the place in the file. */
static enum weir_status publish_file(struct apply *apply, struct store *store, const struct applied_file *file,
                                     struct weir_error *error)
{
    struct published published = {.version = 0};
    const struct definition *definition = file->definition;
    enum weir_status status = store_publish(store, definition->name, definition->workspace, file->canonical.data,
                                            definition->source, &published, error);
    definition_place_refusal(definition, file->name, status, error);
    return status == WEIR_OK ? report_published(apply, definition, &published, error) : status;
}

static enum weir_status publish_files(struct apply *apply, struct weir_error *error)
{
    struct store *store = NULL;
    size_t done = 0;
    enum weir_status status = verb_open_store(apply->invocation, STORE_CHANGE, &store, error);
    bool is_open = status == WEIR_OK;
    while (status == WEIR_OK && done < apply->count) {
        status = publish_file(apply, store, &apply->files[done], error);
        done += status == WEIR_OK;
    }
    if (status != WEIR_OK && is_open && apply->count > 1) {
        output_report(apply->invocation->output, "%zu of %zu files are published; %s is the first that is not", done,
                      apply->count, output_safe(apply->invocation->output, apply->files[done].name));
    }
    store_close(store);
    return status;
}

/* The store refuses the definition; other failures are of the store or of the caller's rights. */
static bool is_refusal_of_definition(enum weir_status status)
{
    return status == WEIR_INVALID_ARGUMENT || status == WEIR_INVALID_DEFINITION || status == WEIR_CONFLICT ||
           status == WEIR_ILLEGAL_STATE || status == WEIR_WORKSPACE_NOT_FOUND || status == WEIR_PLAN_NOT_FOUND;
}

/* Asks the store what a publication would change. `store`: NULL = it cannot be opened, and `reason` has the cause. */
static enum weir_status rehearse_file(struct apply *apply, struct store *store, const struct applied_file *file,
                                      struct weir_error *reason, struct weir_error *error)
{
    struct published published = {.version = 0};
    const struct definition *definition = file->definition;
    enum weir_status status = reason->status;
    if (store != NULL) {
        status = store_try_publish(store, definition->name, definition->workspace, file->canonical.data, definition->source,
                                   &published, reason);
        definition_place_refusal(definition, file->name, status, reason);
    }
    if (is_refusal_of_definition(status)) {
        *error = *reason;
        return status;
    }
    return report_valid(apply, file, status == WEIR_OK ? &published : NULL, reason->message, error);
}

/* A definition can be checked without a store, too. */
static enum weir_status rehearse_files(struct apply *apply, struct weir_error *error)
{
    struct store *store = NULL;
    struct weir_error reason = {.status = WEIR_OK};
    reason.status = verb_open_store(apply->invocation, STORE_CHANGE, &store, &reason);
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < apply->count && status == WEIR_OK; i++) {
        status = rehearse_file(apply, store, &apply->files[i], &reason, error);
    }
    store_close(store);
    return status;
}

/* --- the verb --- */

static void close_apply(struct apply *apply)
{
    for (size_t i = 0; apply->files != NULL && i < apply->count; i++) {
        definition_close(apply->files[i].definition);
        text_close(&apply->files[i].canonical);
        text_close(&apply->files[i].source);
    }
    free(apply->files);
    json_decref(apply->answers);
}

enum weir_status verb_workflow_apply(struct invocation *invocation, struct weir_error *error)
{
    struct apply apply = {.invocation = invocation, .count = invocation->argument_count};
    apply.files = calloc(apply.count, sizeof *apply.files);
    apply.answers = json_array();
    enum weir_status status =
        apply.files == NULL || apply.answers == NULL ? error_out_of_memory(error) : read_applied_files(&apply, error);
    bool is_checked = status == WEIR_OK;
    if (is_checked && invocation_is_dry_run(invocation)) {
        status = rehearse_files(&apply, error);
    } else if (is_checked) {
        status = publish_files(&apply, error);
    }
    if (apply.count > 1 &&
        (status == WEIR_OK || json_array_size(apply.answers) > 0)) { /* what was published before a failure */
        json_t *page = json_pack("{s:O}", "items", apply.answers);
        if (page == NULL) {
            status = status == WEIR_OK ? error_out_of_memory(error) : status;
        } else {
            (void)output_page(invocation->output, page);
        }
        json_decref(page);
    }
    close_apply(&apply);
    return status;
}
