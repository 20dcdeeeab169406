/* The section `schedules` of the text of a definition as requests for the driver.
 *
 *   1. The text is parsed, if it may have the section. A server as the store parses it itself, so it gets the text alone.
 *   2. Each schedule becomes a request with the name of the workflow, which is checked as one of a user is.
 *   3. The first time is computed here, because no driver knows calendars.
 *
 * definition_write() has made most texts, so the members have their types. A program may call the verb with a text of its
 * own: a member of another type counts as left out, and the checks of a request refuse the rest. Runs in the caller's
 * thread.
 */
#include "store/definition_schedules.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/definition.h"
#include "store/driver.h"

_Static_assert((int)SCHEDULE_NAMED_WORKSPACES_MAX == (int)SCHEDULE_WORKSPACES_MOST,
               "a definition has the limit of a store");

enum { TEXTS_BYTES_MAX = 4 * DEFINITION_BYTES_MAX };

/* NULL = left out. */
static const char *section_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* 0 = left out. A text that is no duration becomes a number that the checks refuse. */
static int64_t section_duration(const json_t *object, const char *key)
{
    int64_t duration_us = 0;
    const char *text = section_text(object, key);
    return text == NULL || duration_parse(text, &duration_us, NULL) == WEIR_OK ? duration_us : -1;
}

/* The same. */
static int64_t section_time(const json_t *object, const char *key)
{
    int64_t time_us = 0;
    const char *text = section_text(object, key);
    return text == NULL || time_parse(text, 0, &time_us, NULL) == WEIR_OK ? time_us : -1;
}

/* Those of the text, else the owner. */
static enum weir_status read_schedule_workspaces(const json_t *object, const char *workspace, struct arena *arena,
                                                 struct schedule_request *request, struct weir_error *error)
{
    size_t i;
    const json_t *name;
    const json_t *list = json_object_get(object, "workspaces");
    const char **names = arena_allocate(arena, (json_array_size(list) + 1) * sizeof *names);
    if (names == NULL) {
        return error_out_of_memory(error);
    }
    json_array_foreach(list, i, name)
    {
        names[request->workspace_count++] = json_is_string(name) ? json_string_value(name) : "";
    }
    if (workspace != NULL) { /* the only one that has the workflow */
        names[0] = workspace;
        request->workspace_count = 1;
    }
    request->workspaces = names;
    return WEIR_OK;
}

/* Keys are those of the file; `every` and `cron` together are refused by the checks. */
static enum weir_status read_owned_schedule(const json_t *object, const char *workspace, struct arena *arena,
                                            struct schedule_request *request, struct weir_error *error)
{
    const json_t *params = json_object_get(object, "params");
    const char *overlap = section_text(object, "overlap");
    struct text text = {.max = DEFINITION_BYTES_MAX};
    request->when = (struct recurrence_text){.cron = section_text(object, "cron"),
                                             .every_us = section_duration(object, "every"),
                                             .zone = section_text(object, "zone"),
                                             .from_us = section_time(object, "from"),
                                             .until_us = section_time(object, "until")};
    request->jitter_us = section_duration(object, "jitter");
    request->catch_up_us = section_duration(object, "catch_up");
    request->plan = workspace == NULL ? section_text(object, "plan") : NULL;
    enum weir_status status = WEIR_OK;
    if (overlap != NULL && !schedule_overlap_parse(overlap, &request->overlap)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is no overlap policy", overlap);
    }
    if (status == WEIR_OK && params != NULL) {
        status = json_write(params, &text, error);
        request->params = status == WEIR_OK ? arena_copy(arena, text.data, text.length) : NULL;
        status = status == WEIR_OK && request->params == NULL ? error_out_of_memory(error) : status;
    }
    text_close(&text);
    return status == WEIR_OK ? read_schedule_workspaces(object, workspace, arena, request, error) : status;
}

void definition_schedule_prefix(struct weir_error *error, const char *name)
{
    INVARIANT(name != NULL);
    char begin[DEFINITION_SCHEDULE_REFUSAL_MAX];
    (void)snprintf(begin, sizeof begin, DEFINITION_SCHEDULE_REFUSAL, name);
    if (error != NULL && strncmp(error->message, begin, strlen(begin)) != 0) {
        error_prefix(error, DEFINITION_SCHEDULE_REFUSAL, name);
    }
}

/* The number is checked before the first one: each costs the times of an expression. */
static enum weir_status read_all_schedules(struct store *store, const char *workflow, const char *workspace,
                                           struct definition_schedules *schedules, struct weir_error *error)
{
    const char *name;
    json_t *object;
    json_t *all = json_object_get(schedules->text, "schedules");
    size_t most = json_object_size(all);
    if (most > DEFINITION_SCHEDULES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a definition has at most %d schedules", DEFINITION_SCHEDULES_MAX);
    }
    schedules->items = arena_allocate(&schedules->arena, (most + 1) * sizeof *schedules->items);
    if (schedules->items == NULL) {
        return error_out_of_memory(error);
    }
    json_object_foreach(all, name, object)
    {
        struct owned_schedule *item = &schedules->items[schedules->count++];
        struct schedule_request request = {.name = name, .workflow = workflow};
        enum weir_status status = read_owned_schedule(object, workspace, &schedules->arena, &request, error);
        if (status == WEIR_OK) {
            status = schedule_prepare(store, &request, true, &item->request, &item->due_us, error);
        }
        if (status != WEIR_OK) {
            definition_schedule_prefix(error, name);
            return status;
        }
    }
    return WEIR_OK;
}

enum weir_status definition_schedules_open(struct store *store, const char *name, const char *workspace, const char *text,
                                           struct definition_schedules *ret_schedules, struct weir_error *error)
{
    INVARIANT(store != NULL && name != NULL && text != NULL && ret_schedules != NULL);
    struct definition_schedules schedules = {.items = NULL};
    enum weir_status status = WEIR_OK;
    arena_init(&schedules.arena, TEXTS_BYTES_MAX);
    bool is_candidate = (store_features(store) & STORE_IS_SERVER) == 0 && strstr(text, "\"schedules\"") != NULL;
    enum weir_status read = is_candidate ? json_read(text, strlen(text), &schedules.text, NULL) : WEIR_OK;
    if (read == WEIR_OUT_OF_MEMORY) { /* without its schedules the publication would remove them */
        status = error_out_of_memory(error);
    } else if (is_candidate && read == WEIR_OK) {
        status = read_all_schedules(store, name, workspace, &schedules, error);
    }
    if (status != WEIR_OK) {
        definition_schedules_close(&schedules);
        return status;
    }
    *ret_schedules = schedules;
    return WEIR_OK;
}

void definition_schedules_close(struct definition_schedules *schedules)
{
    INVARIANT(schedules != NULL);
    json_decref(schedules->text);
    arena_close(&schedules->arena);
    *schedules = (struct definition_schedules){.items = NULL};
}
