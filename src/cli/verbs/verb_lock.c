/* `weir lock list` and `weir lock release`.
 *
 * A release takes the lock from the holder that the store shows now, by its name: if another holder got the lock
 * meanwhile, the store changes nothing. A person must confirm it, or give --yes, because the present holder may still
 * work. One thread.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

static void print_locks(struct output *output, const json_t *page, int64_t now_us)
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

static enum weir_status list_locks(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct list_view view = {
        .kind = LIST_LOCKS, .print = print_locks, .empty = "no program has taken a lock on this store yet"};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_lock_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_locks, error);
}

/* Asks for the name of the lock, because its holder may still work. */
static enum weir_status confirm_release(const struct invocation *invocation, const char *name, const char *holder,
                                        struct weir_error *error)
{
    char question[256];
    bool was_asked = false;
    if (invocation_has(invocation, "yes")) {
        return WEIR_OK;
    }
    (void)snprintf(question, sizeof question, "%s holds the lock. Type the name of the lock to release it: ", holder);
    if (output_ask(invocation->output, question, name, &was_asked)) {
        return WEIR_OK;
    }
    if (was_asked) {
        return error_set(error, WEIR_STOPPED, "nothing was changed");
    }
    error_set(error, WEIR_INVALID_ARGUMENT,
              "%s holds the lock; nothing was changed, because there is no terminal to confirm the release", holder);
    error_hint(error, "--yes releases it without a question");
    return WEIR_INVALID_ARGUMENT;
}

static enum weir_status print_release(const struct invocation *invocation, const char *holder, bool changed,
                                      struct weir_error *error)
{
    return verb_print_act(
        invocation,
        json_pack("{s:s, s:s?, s:b}", "name", invocation_argument(invocation, 0), "holder", holder, "changed", changed),
        error);
}

/* Releases the lock of the holder that was shown. */
static enum weir_status release_lock(struct invocation *invocation, struct store *store, const json_t *lock,
                                     struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    const char *holder = json_string_value(json_object_get(lock, "holder"));
    struct lock_request request = {
        .name = name, .holder = holder, .at_most_us = MICROSECONDS_PER_SECOND, .is_forced = true};
    if (!field_is_true(lock, "held") || holder == NULL) {
        output_report(output, "lock %s is free already", output_safe(output, name));
        return print_release(invocation, NULL, false, error);
    }
    if (invocation_is_dry_run(invocation)) {
        output_report(output, "would take lock %s from %s", output_safe(output, name), output_safe(output, holder));
        return print_release(invocation, holder, false, error);
    }
    enum weir_status status = confirm_release(invocation, name, output_safe(output, holder), error);
    if (status == WEIR_OK) {
        status = store_unlock(store, &request, error);
    }
    if (status == WEIR_OK) {
        output_report_sign(output, SIGN_FINE, "lock %s is free", output_safe(output, name));
        status = print_release(invocation, holder, true, error);
    }
    return status;
}

static enum weir_status release_named_lock(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    json_t *page = NULL;
    const char *name = invocation_argument(invocation, 0);
    enum weir_status status = store_require_name(store, LIST_LOCKS, name, WEIR_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_LOCKS, name, &page, error);
    }
    if (status == WEIR_OK) {
        status = release_lock(invocation, store, page_first(page), error);
    }
    json_decref(page);
    return status;
}

enum weir_status verb_lock_release(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, release_named_lock, error);
}
