/* Reading the section `schedules`: the times at which the workflow starts by itself. Part of definition_read().
 *
 *   1. Each schedule has the words of `weir schedule set`; the workflow is the definition's own.
 *   2. Its workspaces: those that it names, or those of a plan. A workflow with an owner starts in that workspace alone, so
 *      its schedules name none.
 *   3. Its times are read as the store will read them, in texts of people alone: a text of the store was checked. A time
 *      zone that this machine does not have is left to the store.
 *
 * Nothing here is an expression: times come without an execution that could give values. The limits of durations, names
 * and params are the store's, which checks all of them when the definition is published. Runs in the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/definition_internal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

static const char *const overlap_words[] = {"skip", "queue_one", "queue_all", "cancel_running"};
enum { OVERLAP_WORDS = sizeof overlap_words / sizeof overlap_words[0] };

/* A duration would count from another time with each reading, so a definition has times alone. */
static enum weir_status read_schedule_limit(struct definition_reader *reader, const struct yaml_node *node,
                                            const char *field, int64_t *ret_us)
{
    const char *text = NULL;
    struct weir_error inner = {.status = WEIR_OK};
    if (node == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = reader_take_text(reader, node, field, &text);
    bool is_time = status == WEIR_OK && strlen(text) > 4 && text[4] == '-';
    if (status == WEIR_OK && (!is_time || time_parse(text, 0, ret_us, &inner) != WEIR_OK || *ret_us <= 0)) {
        FAIL(reader, node, "%s must be a time, not \"%.40s\"", field, text);
        error_hint(reader->error, "write a time with its zone: 2040-01-31T08:00:00Z");
        return reader->source.status;
    }
    return status;
}

/* The zone UTC is the default, and left out. An interval has none. */
static enum weir_status read_schedule_times(struct definition_reader *reader, const struct yaml_node *node,
                                            struct definition_schedule *schedule)
{
    const struct yaml_node *cron = yaml_get(node, "cron");
    const struct yaml_node *every = yaml_get(node, "every");
    const struct yaml_node *zone = yaml_get(node, "zone");
    struct recurrence_text *when = &schedule->when;
    enum weir_status status = WEIR_OK;
    if ((cron == NULL) == (every == NULL)) {
        FAIL(reader, node, "the schedule \"%s\" needs exactly one of \"cron\" and \"every\"", schedule->name);
        error_hint(reader->error, "write cron: \"30 4 * * mon-fri\", or every: 15m");
        return reader->source.status;
    }
    if (cron != NULL) {
        status = reader_take_text(reader, cron, "\"cron\"", &when->cron);
    } else {
        status = reader_take_duration(reader, every, "\"every\"", &when->every_us);
        if (status == WEIR_OK && when->every_us == 0) {
            status = FAIL(reader, every, "\"every\" must be longer than 0");
        }
    }
    if (status == WEIR_OK && zone != NULL && every != NULL) {
        return FAIL(reader, zone, "\"zone\" is for \"cron\": even steps have no time zone");
    }
    if (status == WEIR_OK && zone != NULL) {
        status = reader_take_text(reader, zone, "\"zone\"", &when->zone);
        when->zone = status == WEIR_OK && strcmp(when->zone, "UTC") != 0 ? when->zone : NULL;
    }
    if (status == WEIR_OK) {
        status = read_schedule_limit(reader, yaml_get(node, "from"), "\"from\"", &when->from_us);
    }
    return status == WEIR_OK ? read_schedule_limit(reader, yaml_get(node, "until"), "\"until\"", &when->until_us) : status;
}

/* Step 3. */
static enum weir_status check_schedule_times(struct definition_reader *reader, const struct yaml_node *node,
                                             const struct definition_schedule *schedule)
{
    struct weir_error inner = {.status = WEIR_OK};
    struct recurrence recurrence = {.zone = NULL};
    enum weir_status status = recurrence_open(&schedule->when, &recurrence, &inner);
    recurrence_close(&recurrence);
    if (status == WEIR_INVALID_ARGUMENT) {
        const struct yaml_node *cron = yaml_get(node, "cron");
        FAIL(reader, cron != NULL ? cron : node, "the schedule \"%s\": %s", schedule->name, inner.message);
        error_hint(reader->error, "%s", inner.hint);
        return reader->source.status;
    }
    return status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(reader->error) : WEIR_OK;
}

static enum weir_status read_workspace_names(struct definition_reader *reader, const struct yaml_node *node,
                                             struct definition_schedule *schedule)
{
    enum weir_status status = WEIR_OK;
    if (node->kind != YAML_LIST || node->count == 0 || node->count > SCHEDULE_NAMED_WORKSPACES_MAX) {
        FAIL(reader, node, "\"workspaces\" must be a list of 1 to %d names", SCHEDULE_NAMED_WORKSPACES_MAX);
        error_hint(reader->error, "write workspaces: [acme], or plan: NAME for all workspaces of a plan");
        return reader->source.status;
    }
    const char **names = arena_allocate(reader->arena, node->count * sizeof *names);
    if (names == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count && status == WEIR_OK; i++) {
        status = reader_take_label(reader, node->values[i], "the name of a workspace", WORKSPACE_NAME_MAX, &names[i]);
    }
    schedule->workspaces = names;
    schedule->workspace_count = node->count;
    return status;
}

/* Step 2. */
static enum weir_status read_schedule_target(struct definition_reader *reader, const struct yaml_node *node,
                                             const char *owner, struct definition_schedule *schedule)
{
    const struct yaml_node *workspaces = yaml_get(node, "workspaces");
    const struct yaml_node *plan = yaml_get(node, "plan");
    if (owner != NULL && (workspaces != NULL || plan != NULL)) {
        return FAIL(reader, workspaces != NULL ? workspaces : plan,
                    "the schedule \"%s\" starts in \"workspace\" of the definition, and names no other", schedule->name);
    }
    if (owner == NULL && (workspaces == NULL) == (plan == NULL)) {
        FAIL(reader, node, "the schedule \"%s\" needs exactly one of \"workspaces\" and \"plan\"", schedule->name);
        error_hint(reader->error, "write workspaces: [acme], or plan: NAME for all workspaces of a plan");
        return reader->source.status;
    }
    if (workspaces != NULL) {
        return read_workspace_names(reader, workspaces, schedule);
    }
    return plan == NULL ? WEIR_OK : reader_take_label(reader, plan, "\"plan\"", PLAN_NAME_MAX, &schedule->plan);
}

static enum weir_status read_schedule_params(struct definition_reader *reader, const struct yaml_node *node,
                                             struct definition_schedule *schedule)
{
    static const struct fixed_value_rules rules = {
        .what = "\"params\" of a schedule",
        .instead = "each execution has the time of its schedule as ${.input.scheduled_for}",
        .bytes_max = DEFINITION_BYTES_MAX};
    json_t *value = NULL;
    if (node == NULL) {
        return WEIR_OK;
    }
    if (node->kind != YAML_MAP) {
        return FAIL(reader, node, "\"params\" must be a map, not %s", yaml_kind_name(node->kind));
    }
    enum weir_status status = reader_take_fixed(reader, node, &rules, &value, &schedule->params);
    if (json_object_size(value) == 0) {
        schedule->params = NULL;
    }
    json_decref(value);
    return status;
}

/* The policy `skip` is the default, and left out. */
static enum weir_status read_schedule_overlap(struct definition_reader *reader, const struct yaml_node *node,
                                              struct definition_schedule *schedule)
{
    const char *word = node == NULL ? overlap_words[0] : node->kind == YAML_STRING ? node->text : "";
    for (size_t i = 0; i < OVERLAP_WORDS; i++) {
        if (strcmp(word, overlap_words[i]) == 0) {
            schedule->overlap = i == 0 ? NULL : overlap_words[i];
            return WEIR_OK;
        }
    }
    return FAIL(reader, node, "\"overlap\" must be skip, queue_one, queue_all or cancel_running");
}

static enum weir_status read_one_schedule(struct definition_reader *reader, const struct yaml_node *key,
                                          const struct yaml_node *node, const char *owner,
                                          struct definition_schedule *schedule)
{
    static const char *const keys[] = {"cron",       "every", "zone",   "from",    "until",   "jitter",
                                       "workspaces", "plan",  "params", "overlap", "catch_up"};
    const struct yaml_node *jitter = yaml_get(node, "jitter");
    const struct yaml_node *catch_up = yaml_get(node, "catch_up");
    *schedule = (struct definition_schedule){.line = key->line, .column = key->column};
    enum weir_status status = reader_take_name(reader, key, "the name of a schedule", &schedule->name);
    if (status == WEIR_OK) {
        status = yaml_check_keys(&reader->source, node, "a schedule", keys, sizeof keys / sizeof keys[0], reader->error);
    }
    status = status == WEIR_OK ? read_schedule_times(reader, node, schedule) : status;
    status = status == WEIR_OK && reader->is_from_people ? check_schedule_times(reader, node, schedule) : status;
    status = status == WEIR_OK ? read_schedule_target(reader, node, owner, schedule) : status;
    if (status == WEIR_OK && jitter != NULL) {
        status = reader_take_duration(reader, jitter, "\"jitter\"", &schedule->jitter_us);
    }
    if (status == WEIR_OK && catch_up != NULL) {
        status = reader_take_duration(reader, catch_up, "\"catch_up\"", &schedule->catch_up_us);
        if (status == WEIR_OK && schedule->catch_up_us == 0) {
            status = FAIL(reader, catch_up, "\"catch_up\" must be longer than 0");
        }
    }
    status = status == WEIR_OK ? read_schedule_overlap(reader, yaml_get(node, "overlap"), schedule) : status;
    return status == WEIR_OK ? read_schedule_params(reader, yaml_get(node, "params"), schedule) : status;
}

/* An empty section is the same as none. */
enum weir_status schedules_read(struct definition_reader *reader, const struct yaml_node *node,
                                struct definition *definition)
{
    enum weir_status status = WEIR_OK;
    if (node->kind != YAML_MAP) {
        FAIL(reader, node, "\"schedules\" must be a map from names to schedules, not %s", yaml_kind_name(node->kind));
        error_hint(reader->error, "write schedules: {nightly: {cron: \"30 4 * * *\", workspaces: [acme]}}");
        return reader->source.status;
    }
    if (node->count > DEFINITION_SCHEDULES_MAX) {
        return FAIL(reader, node->keys[DEFINITION_SCHEDULES_MAX], "more than %d schedules", DEFINITION_SCHEDULES_MAX);
    }
    struct definition_schedule *schedules = arena_allocate(reader->arena, (node->count + 1) * sizeof *schedules);
    if (schedules == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count && status == WEIR_OK; i++) {
        status = read_one_schedule(reader, node->keys[i], node->values[i], definition->workspace, &schedules[i]);
    }
    definition->schedules = schedules;
    definition->schedule_count = node->count;
    return status;
}
