#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/arguments/command.h"
#include "cli/arguments/filter.h"
#include "cli/output/json_fields.h"
#include "cli/role.h"

static enum sign sign_of(const char *state)
{
    if (strcmp(state, "alive") == 0) {
        return SIGN_FINE;
    }
    if (strcmp(state, "stopped") == 0) {
        return SIGN_GONE;
    }
    return strcmp(state, "expired") == 0 || strcmp(state, "dead") == 0 ? SIGN_BAD : SIGN_PAUSED;
}

/* By its id as well where another of the table has the same name. */
static const char *name_of(struct output *output, const json_t *items, const json_t *node)
{
    const char *name = field_text(output, node, "name");
    char told[NODE_NAME_MAX + 32];
    size_t others = 0;
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        others += item != node && json_equal(json_object_get(item, "name"), json_object_get(node, "name"));
    }
    if (others == 0) {
        return name;
    }
    (void)snprintf(told, sizeof told, "%s (%" PRId64 ")", name, field_number(node, "id", 0));
    return output_safe(output, told);
}

/* Do not show the last heartbeat of a node that has stopped or whose work was taken over. */
static bool is_gone(const json_t *node)
{
    return json_is_string(json_object_get(node, "stopped")) || json_is_string(json_object_get(node, "recovered"));
}

static void print_scheduler(struct output *output, const json_t *page, int64_t now_us)
{
    const json_t *scheduler = json_object_get(page, "scheduler");
    output_print(output, "\n%s scheduler %s\n",
                 output_sign_coloured(output, role_health(scheduler) == ROLE_IS_FINE ? SIGN_FINE : SIGN_WARN),
                 role_text(output, scheduler, now_us));
}

/* Whether any of them runs executions outside of itself. */
static bool names_services(const json_t *items)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        const char *service = json_string_value(json_object_get(item, "engine_service"));
        if (service != NULL && service[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* Where it runs executions; "-" while it does not know. The service's identity is in the JSON. */
static const char *target_of(struct output *output, const json_t *node)
{
    const char *engine = field_text(output, node, "engine");
    const char *service = field_text(output, node, "engine_service");
    char text[TARGET_TEXT_MAX];
    if (service == NULL) {
        return "-";
    }
    if (service[0] == '\0') {
        return engine;
    }
    (void)snprintf(text, sizeof text, "%s %s at %s", engine, json_string_value(json_object_get(node, "engine_namespace")),
                   json_string_value(json_object_get(node, "engine_address")));
    return output_safe(output, text);
}

static void print_table(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "NODE", .least = 10},
        {.title = "STATE"},
        {.title = "GROUP", .least = 7},
        {.title = "RUNNING", .align = COLUMN_RIGHT},
        {.title = "STUCK", .align = COLUMN_RIGHT},
        {.title = "HOLDS", .align = COLUMN_RIGHT},
        {.title = "ENGINE"},
        {.title = "SCHEDULES"},
        {.title = "SEEN"},
        {.title = "TARGET"},
    };
    bool shows_target = names_services(json_object_get(page, "items"));
    struct table table;
    size_t i;
    json_t *item;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0] - (shows_target ? 0 : 1));
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        const char *state = field_text(output, item, "state");
        const char *seen = field_text(output, item, "active");
        bool gone = is_gone(item);
        table_cell(&table, name_of(output, json_object_get(page, "items"), item));
        table_cell_sign(&table, sign_of(state != NULL ? state : ""), state);
        table_cell(&table, field_text(output, item, "executor_group"));
        table_cell(&table, gone ? "-" : field_text(output, item, "running"));
        table_cell(&table, gone ? "-" : field_text(output, item, "stuck"));
        table_cell(&table, field_text(output, item, "holds"));
        table_cell(&table, gone ? "-" : field_is_true(item, "engine_reachable") ? "up" : "down");
        table_cell(&table, field_is_true(item, "schedules") ? "yes" : "-");
        table_cell(&table, output_ago(output, seen, now_us));
        if (shows_target) {
            table_cell(&table, target_of(output, item));
        }
    }
    table_close(&table);
    print_scheduler(output, page, now_us);
}

/* Nodes that have stopped or whose work was taken over are history. */
static void hide_gone(json_t *page)
{
    json_t *items = json_object_get(page, "items");
    for (size_t i = json_array_size(items); i-- > 0;) {
        const json_t *node = json_array_get(items, i);
        if (is_gone(node) && field_number(node, "holds", 0) == 0) {
            (void)json_array_remove(items, i);
        }
    }
    (void)json_object_set_new(page, "count", json_integer((json_int_t)json_array_size(items)));
}

/* The page with the scheduler's role beside its rows: the row of a node shows only whether it schedules. */
static enum weir_status add_scheduler(struct store *store, json_t *page, struct weir_error *error)
{
    json_t *answer = NULL;
    enum weir_status status = store_status(store, 1, &answer, error);
    if (status == WEIR_OK && json_object_set(page, "scheduler", json_object_get(answer, "scheduler")) != 0) {
        status = error_out_of_memory(error);
    }
    json_decref(answer);
    return status;
}

enum weir_status verb_node_list(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *page = NULL;
    int64_t now_us = 0;
    enum weir_status status = invocation_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_NODES, NULL, &page, error);
    }
    if (status == WEIR_OK) {
        status = add_scheduler(store, page, error);
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK && !invocation_has(invocation, "all")) {
        hide_gone(page);
    }
    if (status == WEIR_OK && !output_page(invocation->output, page)) {
        if (page_size(page) > 0) {
            print_table(invocation->output, page, now_us);
        } else {
            output_say(invocation->output, "no node runs; `weir serve` starts one, --all shows those that have stopped");
        }
    }
    json_decref(page);
    store_close(store);
    return status;
}

struct namesakes {
    size_t count;
    struct text ids;
    enum weir_status status;
};

static bool add_namesake(void *context, const json_t *node)
{
    struct namesakes *namesakes = context;
    if (field_node_lives(node)) {
        namesakes->status =
            text_format(&namesakes->ids, "%s%" PRId64, namesakes->count == 0 ? "" : ", ", field_number(node, "id", 0));
        namesakes->count++;
    }
    return namesakes->status == WEIR_OK;
}

/* A name is to mean one node: who drains one shall not stop another by the way. */
static enum weir_status refuse_namesakes(struct store *store, const char *name, struct weir_error *error)
{
    struct namesakes namesakes = {.ids = {.max = WEIR_ERROR_HINT_MAX / 2}};
    struct list_options options = {.kind = LIST_NODES, .name = name, .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_list_each(store, &options, add_namesake, &namesakes, error);
    if (status == WEIR_OK && namesakes.count > 1) {
        status = error_set(error, WEIR_CONFLICT, "%s%zu nodes that live are named \"%s\"",
                           namesakes.status == WEIR_OK ? "" : "more than ", namesakes.count, name);
        error_hint(error, "name one by its id: %s%s; a node that was killed counts until its lease is over",
                   namesakes.ids.data, namesakes.status == WEIR_OK ? "" : " ...");
    } else if (status == WEIR_OK && namesakes.status != WEIR_OK) {
        status = error_out_of_memory(error);
    }
    text_close(&namesakes.ids);
    return status;
}

static enum weir_status set_desired_state(struct invocation *invocation, enum desired_state desired_state, const char *word,
                                          struct weir_error *error)
{
    struct store *store = NULL;
    const char *name = invocation_argument(invocation, 0);
    enum weir_status status = invocation_open_store(invocation, STORE_CHANGE, &store, error);
    if (status == WEIR_OK) {
        status = refuse_namesakes(store, name, error);
    }
    if (status == WEIR_OK && invocation_is_dry_run(invocation) && strspn(name, "0123456789") != strlen(name)) {
        status = filter_require_name(store, LIST_NODES, name, WEIR_NOT_FOUND, error);
    } else if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        status = store_set_desired_state(store, name, desired_state, error);
    }
    if (status == WEIR_OK) {
        output_say_sign(invocation->output, SIGN_FINE, "node %s %s %s", output_safe(invocation->output, name),
                        invocation_is_dry_run(invocation) ? "would be asked to" : "is asked to", word);
        status = invocation_print_act(
            invocation, json_pack("{s:s, s:s}", "name", name, "desired_state", desired_state_name(desired_state)), error);
    }
    store_close(store);
    return status;
}

enum weir_status verb_node_pause(struct invocation *invocation, struct weir_error *error)
{
    return set_desired_state(invocation, NODE_PAUSE, "pause: it starts nothing more, what runs goes on", error);
}

enum weir_status verb_node_resume(struct invocation *invocation, struct weir_error *error)
{
    return set_desired_state(invocation, NODE_RUN, "go on", error);
}

enum weir_status verb_node_drain(struct invocation *invocation, struct weir_error *error)
{
    return set_desired_state(invocation, NODE_DRAIN, "drain: it finishes what it has and starts nothing more", error);
}
