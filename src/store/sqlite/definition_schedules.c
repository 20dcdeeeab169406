/* The schedules of definitions on SQLite.
 *
 * A publication sets its schedules and removes the others that the definition owns. A definition that is deleted loses all
 * of them. All of this is part of the transaction that changes the definition. Each change of a schedule has a row of its
 * own in `audit`: the act on the definition waits meanwhile. A publication that changes nothing of a schedule leaves no
 * row. It never changes a schedule of a user or of another definition. Runs in the caller's thread.
 */
#include "store/sqlite/definition_schedules.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "definition/definition.h"
#include "store/refusal.h"

/* "acme/report", with room for two names. */
enum { DEFINITION_TITLE_MAX = WORKSPACE_NAME_MAX + WORKFLOW_NAME_MAX + 2 };

/* The act on the definition, while one on a schedule is recorded. */
struct outer_act {
    struct act act;
    char before[ACT_SETTING_MAX];
};

static enum weir_status begin_inner_act(struct write *write, const char *name, const char *schedule,
                                        struct outer_act *outer, struct weir_error *error)
{
    outer->act = write->act;
    text_copy(outer->before, sizeof outer->before, write->store->store.change.before);
    write->act = (struct act){.name = NULL};
    enum weir_status status = act_begin(write, name, "schedule", schedule, NULL, error);
    write->act.needs_change = true;
    return status;
}

static enum weir_status end_inner_act(struct write *write, const struct outer_act *outer, enum weir_status status,
                                      struct weir_error *error)
{
    status = status == WEIR_OK ? act_record(write, error) : status;
    write->act = outer->act;
    text_copy(write->store->store.change.before, sizeof write->store->store.change.before, outer->before);
    return status;
}

/* The definition that owns a schedule. *ret_is_own: it is that of the workflow and workspace. title[0] = '\0': none owns
 * it. */
static enum weir_status find_schedule_owner(struct write *write, const char *schedule, const char *workflow, int64_t owner,
                                            char title[DEFINITION_TITLE_MAX], bool *ret_is_own, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    title[0] = '\0';
    *ret_is_own = false;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_FIND_DEFINITION_OF_SCHEDULE, "t", schedule);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        text_copy(title, DEFINITION_TITLE_MAX, column_text(statement, 0));
        *ret_is_own = workflow != NULL && sqlite3_column_int64(statement, 1) == owner &&
                      strcmp(column_text(statement, 2), workflow) == 0;
        (void)sqlite3_reset(statement);
    }
    return status;
}

enum weir_status schedule_refuse_owned(struct write *write, const char *name, struct weir_error *error)
{
    INVARIANT(write != NULL && name != NULL);
    char title[DEFINITION_TITLE_MAX];
    bool is_own = false;
    enum weir_status status = find_schedule_owner(write, name, NULL, 0, title, &is_own, error);
    return status == WEIR_OK && title[0] != '\0' ? refusal_schedule_of_definition(name, title, error) : status;
}

static enum weir_status set_owned_schedule(struct write *write, const struct owned_schedule *schedule, int64_t owner,
                                           struct published *published, struct weir_error *error)
{
    const struct schedule_request *request = &schedule->request;
    char title[DEFINITION_TITLE_MAX];
    struct outer_act outer;
    bool is_own = false;
    bool is_changed = false;
    int64_t id = 0;
    enum weir_status status =
        connection_read_integer(write->connection, error, &id, QUERY_FIND_SCHEDULE, "t", request->name);
    bool is_new = status == WEIR_NOT_FOUND;
    if (status == WEIR_OK) {
        status = find_schedule_owner(write, request->name, request->workflow, owner, title, &is_own, error);
    }
    if (status == WEIR_OK && !is_own) {
        return refusal_schedule_name_taken(request->name, title, error);
    }
    if (status != WEIR_OK && !is_new) {
        return status;
    }
    status = begin_inner_act(write, "schedule set", request->name, &outer, error);
    if (status == WEIR_OK) {
        status = schedule_write(write, request, schedule->due_us, owner, is_new ? 0 : id, &is_changed, error);
    }
    if (status == WEIR_OK && is_changed) {
        published_add(published, is_new ? SCHEDULE_ADDED : SCHEDULE_CHANGED, request->name);
        news_state(&write->news);
    } else {
        write->act.name = NULL; /* a setting that is too long for a row of `audit` cannot be compared there */
    }
    return end_inner_act(write, &outer, status, error);
}

/* One at a time, because each is an act. */
static enum weir_status remove_schedules_but(struct write *write, const char *workflow, int64_t owner, const char *names,
                                             struct published *published, struct weir_error *error)
{
    for (;;) {
        char name[SCHEDULE_NAME_MAX + 1] = "";
        struct outer_act outer;
        int64_t id = 0;
        enum weir_status status = WEIR_OK;
        sqlite3_stmt *statement =
            connection_bind(write->connection, error, QUERY_FIND_SCHEDULE_TO_REMOVE, "itt", owner, workflow, names);
        if (statement == NULL) {
            return statement_failure(error);
        }
        if (connection_step(write->connection, statement, &status, error)) {
            id = sqlite3_column_int64(statement, 0);
            text_copy(name, sizeof name, column_text(statement, 1));
            (void)sqlite3_reset(statement);
        }
        if (status != WEIR_OK || id == 0) {
            return status;
        }
        status = begin_inner_act(write, "schedule delete", name, &outer, error);
        status = status == WEIR_OK ? schedule_remove(write, id, error) : status;
        status = end_inner_act(write, &outer, status, error);
        if (status != WEIR_OK) {
            return status;
        }
        if (published != NULL) {
            published_add(published, SCHEDULE_DELETED, name);
        }
    }
}

enum weir_status definition_remove_schedules(struct write *write, const char *workflow, int64_t owner,
                                             struct weir_error *error)
{
    INVARIANT(write != NULL && owner >= 0);
    return remove_schedules_but(write, workflow, owner, "[]", NULL, error);
}

/* The removals go first, so that their places are free for new ones. */
enum weir_status definition_set_schedules(struct write *write, const struct publication *publication, int64_t owner,
                                          struct published *published, struct weir_error *error)
{
    INVARIANT(write != NULL && publication != NULL && owner >= 0 && published != NULL);
    const struct definition_schedules *schedules = publication->schedules;
    struct text names = {.max = DEFINITION_SCHEDULES_MAX * (SCHEDULE_NAME_MAX + 3) + 3};
    enum weir_status status = text_format(&names, "[");
    for (size_t i = 0; i < schedules->count && status == WEIR_OK; i++) {
        status = text_format(&names, "%s\"%s\"", i == 0 ? "" : ",", schedules->items[i].request.name);
    }
    status = status == WEIR_OK && text_format(&names, "]") == WEIR_OK ? WEIR_OK : error_out_of_memory(error);
    if (status == WEIR_OK) {
        status = remove_schedules_but(write, publication->name, owner, names.data, published, error);
    }
    text_close(&names);
    for (size_t i = 0; i < schedules->count && status == WEIR_OK; i++) {
        status = set_owned_schedule(write, &schedules->items[i], owner, published, error);
        if (status != WEIR_OK) {
            definition_schedule_prefix(error, schedules->items[i].request.name);
        }
    }
    return status;
}
