/* Plans, workspaces, pauses and published definitions: one SQL function per verb.
 *
 * The function locks its rows, changes them and writes the news in one transaction; the name of a status comes back. An act
 * (a pause, a smaller limit) waits at its commit for the round that assigns at this moment
 * (functions/await_rounds.sql). So nothing more is assigned once the verb has returned. For an unknown name this file
 * reads the names again and suggests the nearest one.
 *
 * It never changes an item: the scheduler reads of the change in the news. It runs in the thread of the caller. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/postgres/definition_schedules.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

/* The status in the first column of the answer. Clears the result. */
static enum weir_status read_answer_status(enum weir_status status, PGresult *result)
{
    if (status == WEIR_OK) {
        status = status_parse_name(result_text(result, 0, 0));
    }
    PQclear(result);
    return status;
}

/* The status in the first column of the answer, and the setting before and after the change. Clears the result. */
static enum weir_status read_change(struct store *store, enum weir_status status, PGresult *result)
{
    if (status == WEIR_OK) {
        const char *before = result_text(result, 0, 1);
        const char *after = result_text(result, 0, 2);
        text_copy(store->change.before, sizeof store->change.before, before == NULL ? "" : before);
        text_copy(store->change.after, sizeof store->change.after, after == NULL ? "" : after);
    }
    return read_answer_status(status, result);
}

enum weir_status postgres_set_plan(struct store *store, const struct plan_change *change, struct weir_error *error)
{
    INVARIANT(change != NULL && change->name != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = link_write(link_of(store), error, &result, QUERY_CHANGE_PLAN, "tiddtt", change->name, change->max_concurrent,
                        change->weight, (int)change->max_pending, store_actor(store), store_reason(store));
    status = read_change(store, status, result);
    if (status == WEIR_PLAN_NOT_FOUND) {
        return refusal_plan_without_limit(change->name, error);
    }
    return status;
}

enum weir_status postgres_set_workspace(struct store *store, const struct workspace_change *change,
                                        struct weir_error *error)
{
    INVARIANT(change != NULL && change->name != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status = link_write(link, error, &result, QUERY_CHANGE_WORKSPACE, "ttidodtt", change->name, change->plan,
                        change->max_concurrent, change->paused, (int)change->create, (int)change->max_pending,
                        store_actor(store), store_reason(store));
    status = read_change(store, status, result);
    if (status == WEIR_PLAN_NOT_FOUND) {
        return refuse_unknown_name(link, QUERY_PLAN_NAMES, status, "plan", change->plan == NULL ? "free" : change->plan,
                                   PLAN_HOW, error);
    }
    if (status == WEIR_WORKSPACE_NOT_FOUND) {
        return refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, status, "workspace", change->name, WORKSPACE_HOW, error);
    }
    return status;
}

enum weir_status postgres_rename_workspace(struct store *store, const char *name, const char *new_name,
                                           struct weir_error *error)
{
    INVARIANT(name != NULL && new_name != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status = link_write(link, error, &result, QUERY_RENAME_WORKSPACE, "tttt", name, new_name, store_actor(store),
                        store_reason(store));
    int64_t used = status == WEIR_OK ? result_int(result, 0, 3) : 0;
    status = read_change(store, status, result);
    if (status == WEIR_WORKSPACE_NOT_FOUND) {
        return refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, status, "workspace", name, WORKSPACE_HOW, error);
    }
    if (status == WEIR_CONFLICT) {
        return refusal_workspace_name_taken(new_name, error);
    }
    return status == WEIR_ILLEGAL_STATE && used > 0 ? refusal_workspace_name_used(name, used, error) : status;
}

/* `group` NULL: the whole queue. */
enum weir_status postgres_set_paused(struct store *store, const char *group, bool paused, struct weir_error *error)
{
    INVARIANT(store != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status = link_write(link, error, &result, QUERY_CHANGE_PAUSE, "tott", group, (int)paused, store_actor(store),
                        store_reason(store));
    status = read_answer_status(status, result);
    if (status == WEIR_NOT_FOUND) {
        return refuse_unknown_name(link, QUERY_GROUP_NAMES, status, "executor group", group, GROUP_HOW, error);
    }
    return status;
}

/* --- definitions --- */

/* 0: there is none, or the server does not answer. */
static int find_earlier_version(struct link *link, int64_t definition_id)
{
    PGresult *result = NULL;
    struct weir_error ignored = {.status = WEIR_OK};
    if (link_read(link, &ignored, &result, QUERY_EARLIER_DEFINITION, "i", definition_id) != WEIR_OK) {
        return 0;
    }
    int version = (int)result_int(result, 0, 0);
    PQclear(result);
    return version;
}

/* The refusal of publish_with_schedules(), whose answer this is. */
static enum weir_status refuse_publication(struct link *link, const struct publication *publication,
                                           enum weir_status status, const char *schedule, const char *unknown,
                                           struct weir_error *error)
{
    if (schedule[0] != '\0') {
        status = schedule_refuse_set(link, schedule, status, unknown, error);
        definition_schedule_prefix(error, schedule);
        return status;
    }
    if (status == WEIR_WORKSPACE_NOT_FOUND) {
        return refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, status, "workspace", publication->workspace,
                                   "make it with: weir workspace set NAME", error);
    }
    return status == WEIR_ILLEGAL_STATE ? refusal_handler_sets_full(error) : status;
}

/* The call, with the columns of the definition beside its text. */
static enum weir_status send_publication(struct store *store, const struct publication *publication, PGresult **ret_result,
                                         struct weir_error *error)
{
    char *schedules = NULL;
    struct definition_facts facts;
    enum weir_status status = definition_facts_read(publication->text, &facts, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = definition_schedules_write(publication->schedules, &schedules, error);
    if (status == WEIR_OK) {
        status =
            link_write(link_of(store), error, ret_result, QUERY_PUBLISH_DEFINITION, "tttdtdttttttdd", publication->name,
                       publication->workspace, publication->text, facts.starts_max, facts.executor_group,
                       facts.on_temporal ? 1 : 0, facts.handlers, store_actor(store), store_reason(store),
                       publication->source, facts.labels, schedules, (int)SCHEDULES_MOST, (int)publication->only_try);
    }
    free(schedules);
    definition_facts_close(&facts);
    return status;
}

enum weir_status postgres_publish(struct store *store, const struct publication *publication,
                                  struct published *ret_published, struct weir_error *error)
{
    INVARIANT(publication->name != NULL && publication->text != NULL && ret_published != NULL);
    PGresult *result = NULL;
    char schedule[SCHEDULE_NAME_MAX + 1] = "";
    char unknown[SCHEDULE_UNKNOWN_MAX] = "";
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct link *link = link_of(store);
    status = send_publication(store, publication, &result, error);
    if (status != WEIR_OK) {
        return status;
    }
    text_copy(schedule, sizeof schedule, result_null(result, 0, 4) ? "" : result_text(result, 0, 4));
    text_copy(unknown, sizeof unknown, result_null(result, 0, 5) ? "" : result_text(result, 0, 5));
    struct published published = {.definition_id = result_int(result, 0, 1),
                                  .version = (int)result_int(result, 0, 2),
                                  .unchanged = result_bool(result, 0, 3)};
    for (int change = 0; change < PUBLISHED_CHANGES; change++) {
        const char *text = result_null(result, 0, 6 + change) ? "[]" : result_text(result, 0, 6 + change);
        json_t *names = json_loads(text, 0, NULL);
        published_add_all(&published, (enum published_change)change, names);
        json_decref(names);
    }
    status = read_answer_status(status, result);
    if (status != WEIR_OK) {
        return refuse_publication(link, publication, status, schedule, unknown, error);
    }
    if (!published.unchanged && !publication->only_try) {
        /* Apart from the transaction above: versions never change, and a failure here must not hide that one was made. */
        published.earlier_version = find_earlier_version(link, published.definition_id);
    }
    *ret_published = published;
    return WEIR_OK;
}

enum weir_status postgres_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                          struct definition_text *ret_definition, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_definition != NULL);
    PGresult *result = NULL;
    bool failed = false;
    enum weir_status status = link_read(link_of(store), error, &result, QUERY_READ_DEFINITION, "i", definition_id);
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) == 0) {
        PQclear(result);
        return refusal_definition_missing(definition_id, error);
    }
    struct definition_text definition = {.id = result_int(result, 0, 0),
                                         .name = result_copy(result, 0, 1, arena, &failed),
                                         .text = result_copy(result, 0, 2, arena, &failed),
                                         .version = (int)result_int(result, 0, 3),
                                         .workspace = result_copy(result, 0, 4, arena, &failed)};
    PQclear(result);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_definition = definition;
    return WEIR_OK;
}
