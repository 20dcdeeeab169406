/* The parts that all verbs share: the store of the call, lists of rows, the record of a change.
 *
 * A verb runs once, in the only thread of a command. verb_with_store() gives most verbs their shape: open the store,
 * act, close the store. The act itself checks the names that it needs, honours --dry-run, and prints its result with
 * verb_print_act(). No function here retries a call of the store: the driver does that where it is safe.
 */
#include "cli/verbs/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/actor.h"
#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/verbs/store_pages.h"

enum weir_status verb_print_act(const struct invocation *invocation, json_t *facts, struct weir_error *error)
{
    json_t *answer = json_pack("{s:s}", "act", invocation->command->name);
    bool is_whole = facts != NULL && answer != NULL && json_object_update(answer, facts) == 0 &&
                    json_object_set_new(answer, "dry_run", json_boolean(invocation_is_dry_run(invocation))) == 0;
    if (is_whole) {
        (void)output_object(invocation->output, answer);
    }
    json_decref(answer);
    json_decref(facts);
    return is_whole ? WEIR_OK : error_out_of_memory(error);
}

enum weir_status verb_open_store(const struct invocation *invocation, enum store_use use, struct store **ret_store,
                                 struct weir_error *error)
{
    const char *command = invocation->command->name;
    bool may_wait = strcmp(command, "enqueue") == 0 || strcmp(command, "node drain") == 0;
    bool is_wait = strcmp(command, "wait") == 0 || (may_wait && invocation_has(invocation, "wait"));
    if (!is_wait && invocation_number(invocation, "timeout", 1) == 0) {
        return invocation_usage_error(invocation, error,
                                      "--timeout 0 gives this command no time; only `weir wait` takes it");
    }
    struct store_options options = {
        .url = settings_text(invocation->settings, SETTING_STORE),
        .token_file = settings_text_or_null(invocation->settings, SETTING_HTTP_TOKEN_FILE),
        .ca_file = settings_text_or_null(invocation->settings, SETTING_HTTP_CA_FILE),
        .create = use == STORE_CREATE,
        .read_only = use == STORE_READ,
        .deadline_us = is_wait ? 0 : invocation_number(invocation, "timeout", 0),
    };
    struct store *store = NULL;
    char actor[ACTOR_MAX + 1];
    bool takes_reason = invocation_takes(invocation, "reason"); /* `serve` and `top` act without one */
    enum weir_status status = store_open(&options, &store, error);
    if (status == WEIR_OK) {
        actor_write("cli", actor, sizeof actor);
        status = store_act_as(store, actor, takes_reason ? invocation_text(invocation, "reason") : NULL, error);
    }
    if (status == WEIR_OK && use != STORE_MEND && use != STORE_CREATE) {
        status = store_require_schema(store, error);
    }
    if (status != WEIR_OK) {
        if (status == WEIR_STORE_UNREACHABLE && error != NULL && error->hint[0] == '\0') {
            error_hint(error, "`weir store init` makes a store, `weir dev` makes one and runs a node; --store or "
                              "WEIR_STORE names an existing one");
        }
        store_close(store);
        return status;
    }
    *ret_store = store;
    return WEIR_OK;
}

enum weir_status verb_with_store(struct invocation *invocation, enum store_use use, verb_act *act, struct weir_error *error)
{
    struct store *store = NULL;
    INVARIANT(act != NULL);
    enum weir_status status = verb_open_store(invocation, use, &store, error);
    if (status == WEIR_OK) {
        status = act(invocation, store, error);
    }
    store_close(store);
    return status;
}

enum weir_status verb_print_list(struct invocation *invocation, struct store *store, const struct list_view *view,
                                 struct weir_error *error)
{
    json_t *page = NULL;
    int64_t now_us = 0;
    INVARIANT(store != NULL && view->print != NULL);
    const struct list_options options = {.kind = view->kind, .prefix = view->prefix, .limit = LIST_LIMIT_MOST};
    enum weir_status status = page_read_all(store, &options, &page, error);
    if (status == WEIR_OK && view->adjust != NULL) {
        status = view->adjust(invocation, store, page, error);
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK && !output_page(invocation->output, page)) {
        if (page_size(page) > 0 || view->empty == NULL) {
            view->print(invocation->output, page, now_us);
        } else {
            output_report(invocation->output, "%s", view->empty);
        }
    }
    json_decref(page);
    return status;
}

/* --- limits --- */

int64_t verb_pending_change(const struct invocation *invocation)
{
    int64_t most = invocation_number(invocation, "max-pending", 0);
    if (!invocation_has(invocation, "max-pending")) {
        return 0;
    }
    return most == 0 ? PENDING_UNLIMITED : most;
}

json_t *verb_pending_limit(int64_t change)
{
    if (change == 0 || change == PENDING_OF_PLAN) {
        return json_null();
    }
    return json_integer(change == PENDING_UNLIMITED ? 0 : change);
}
