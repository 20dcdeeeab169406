#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/arguments/command.h"
#include "cli/arguments/filter.h"
#include "cli/output/json_fields.h"

static void print_table(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {{.title = "LOCK", .least = 12},
                                            {.title = "STATE"},
                                            {.title = "HOLDER", .least = 12},
                                            {.title = "LOCKED"},
                                            {.title = "UNTIL"}};
    struct table table;
    size_t i;
    json_t *item;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        bool is_held = field_is_true(item, "held");
        table_cell(&table, field_text(output, item, "name"));
        table_cell_sign(&table, is_held ? SIGN_RUNS : SIGN_GONE, is_held ? "held" : "free");
        table_cell(&table, is_held ? field_text(output, item, "holder") : NULL);
        table_cell(&table, output_ago(output, field_text(output, item, "locked_at"), now_us));
        table_cell(&table, is_held ? output_ago(output, field_text(output, item, "lock_until"), now_us) : NULL);
    }
    table_close(&table);
}

enum weir_status verb_lock_list(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *page = NULL;
    int64_t now_us = 0;
    enum weir_status status = invocation_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_LOCKS, NULL, &page, error);
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK && !output_page(invocation->output, page)) {
        if (page_size(page) > 0) {
            print_table(invocation->output, page, now_us);
        } else {
            output_say(invocation->output, "no lock has ever been taken on this store");
        }
    }
    json_decref(page);
    store_close(store);
    return status;
}

static enum weir_status confirm(const struct invocation *invocation, const char *name, const char *holder,
                                struct weir_error *error)
{
    char question[256];
    bool was_asked = false;
    if (invocation_has(invocation, "yes")) {
        return WEIR_OK;
    }
    (void)snprintf(question, sizeof question, "%s holds it. Type the lock's name to take it away: ", holder);
    if (output_ask(invocation->output, question, name, &was_asked)) {
        return WEIR_OK;
    }
    if (was_asked) {
        return error_set(error, WEIR_STOPPED, "nothing was changed");
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "%s holds the lock; without a terminal to confirm nothing was changed", holder);
    error_hint(error, "--yes takes it away");
    return WEIR_INVALID_ARGUMENT;
}

static enum weir_status print_release(const struct invocation *invocation, const char *holder, bool changed,
                                      struct weir_error *error)
{
    return invocation_print_act(
        invocation,
        json_pack("{s:s, s:s?, s:b}", "name", invocation_argument(invocation, 0), "holder", holder, "changed", changed),
        error);
}

static enum weir_status release(struct invocation *invocation, struct store *store, const json_t *lock,
                                struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    const char *holder = json_string_value(json_object_get(lock, "holder"));
    struct lock_request request = {.name = name, .holder = holder, .at_most_us = MICROSECONDS_PER_SECOND};
    if (!field_is_true(lock, "held") || holder == NULL) {
        output_say(output, "lock %s is free already", output_safe(output, name));
        return print_release(invocation, NULL, false, error);
    }
    if (invocation_is_dry_run(invocation)) {
        output_say(output, "would take lock %s from %s", output_safe(output, name), output_safe(output, holder));
        return print_release(invocation, holder, false, error);
    }
    enum weir_status status = confirm(invocation, name, output_safe(output, holder), error);
    if (status == WEIR_OK) {
        status = store_unlock(store, &request, error);
    }
    if (status == WEIR_OK) {
        output_say_sign(output, SIGN_FINE, "lock %s is free", output_safe(output, name));
        status = print_release(invocation, holder, true, error);
    }
    return status;
}

enum weir_status verb_lock_release(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *page = NULL;
    const char *name = invocation_argument(invocation, 0);
    enum weir_status status = invocation_open_store(invocation, STORE_CHANGE, &store, error);
    if (status == WEIR_OK) {
        status = filter_require_name(store, LIST_LOCKS, name, WEIR_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        status = page_read(store, LIST_LOCKS, name, &page, error);
    }
    if (status == WEIR_OK) {
        status = release(invocation, store, json_array_get(json_object_get(page, "items"), 0), error);
    }
    json_decref(page);
    store_close(store);
    return status;
}
