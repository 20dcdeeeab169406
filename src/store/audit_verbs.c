/* The record of acts: the actor of a handle, acts without a row of their own, and retention.
 *
 * A driver inserts the row of an act into `audit` in the transaction of the act, with the actor and the reason of the
 * handle. A handle without an actor belongs to a node: what nodes do is no act, and nothing is recorded. The texts are
 * checked here, once for all acts, so that a driver may rely on their length and encoding.
 *
 * It never changes a row of the queue. Runs in the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "store/call.h"
#include "store/filter.h"

static enum weir_status check_act_text(const char *what, const char *text, size_t most, struct weir_error *error)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length > most) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the %s is too long", what);
        error_hint(error, "at most %zu bytes", most);
        return WEIR_INVALID_ARGUMENT;
    }
    if (length > 0 && !text_is_utf8(text, length)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the %s is not UTF-8", what);
    }
    return WEIR_OK;
}

enum weir_status store_act_as(struct store *store, const char *actor, const char *reason, struct weir_error *error)
{
    INVARIANT(store != NULL);
    enum weir_status status = check_act_text("name of the actor", actor, ACTOR_MAX, error);
    if (status == WEIR_OK) {
        status = check_act_text("reason", reason, REASON_MAX, error);
    }
    if (status == WEIR_OK) {
        text_copy(store->actor, sizeof store->actor, actor == NULL ? "" : actor);
        text_copy(store->reason, sizeof store->reason, reason == NULL ? "" : reason);
        text_make_safe(store->actor);
    }
    return status;
}

enum weir_status store_act_for(struct store *store, const struct store *other, const char *reason, struct weir_error *error)
{
    INVARIANT(other != NULL);
    return store_act_as(store, store_actor(other), reason == NULL ? store_reason(other) : reason, error);
}

const char *store_actor(const struct store *store)
{
    return store->actor[0] == '\0' ? NULL : store->actor;
}

const char *store_reason(const struct store *store)
{
    return store->reason[0] == '\0' ? NULL : store->reason;
}

/* NULL for an empty text: there was or is nothing. */
static json_t *parse_setting(const char *text)
{
    json_t *value = NULL;
    if (text[0] == '\0' || json_read(text, strlen(text), &value, NULL) != WEIR_OK) {
        return NULL;
    }
    return value;
}

void store_last_change(const struct store *store, json_t **ret_before, json_t **ret_after)
{
    INVARIANT(store != NULL && ret_before != NULL && ret_after != NULL);
    *ret_before = parse_setting(store->change.before);
    *ret_after = parse_setting(store->change.after);
}

/* --- names of acts and of their subjects --- */

const char *desired_state_act(enum desired_state desired_state)
{
    static const char *const acts[] = {"node resume", "node pause", "node drain", "node stop"};
    INVARIANT((unsigned)desired_state < sizeof acts / sizeof acts[0]);
    return acts[desired_state];
}

const char *workspace_change_act(const struct workspace_change *change)
{
    return change->paused < 0 ? "workspace set" : change->paused ? "workspace pause" : "workspace resume";
}

const char *workflow_state_act(enum workflow_state state)
{
    static const char *const acts[] = {"workflow enable", "workflow disable", "workflow delete"};
    INVARIANT((unsigned)state < sizeof acts / sizeof acts[0]);
    return acts[state];
}

/* Drops the rest of a character that was cut. */
static void cut_at_character(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && !text_is_utf8(text, length)) {
        text[--length] = '\0';
    }
}

struct subject {
    char *to;
    size_t size;
};

/* Appends " KEY=VALUE" while there is room. */
static void add_condition(void *context, const char *key, const char *value)
{
    struct subject *subject = context;
    size_t used = strlen(subject->to);
    if (used < subject->size) {
        (void)snprintf(subject->to + used, subject->size - used, "%s%s=%s", used == 0 ? "" : " ", key, value);
    }
}

/* The words of a filter, as `weir list --where` takes them. */
void audit_subject(const struct execution_filter *filter, const char *id, char *to, size_t size)
{
    INVARIANT(filter != NULL && to != NULL && size > 0);
    struct subject subject = {.to = to, .size = size};
    to[0] = '\0';
    if (filter->id != NULL) {
        text_copy(to, size, id);
        return;
    }
    filter_each(filter, add_condition, &subject);
    if (to[0] == '\0') {
        text_copy(to, size, "executions");
    }
    cut_at_character(to);
}

/* --- acts without a row, and retention --- */

/* The first words of the acts that drivers record. A noted one of the same name would look as if it had been done. */
static bool is_act_of_store(const char *act)
{
    static const char *const words[] = {"approve", "reject",  "cancel",   "complete", "dismiss",  "hook",
                                        "lock",    "migrate", "node",     "pause",    "plan",     "purge",
                                        "release", "resume",  "retry",    "store",    "schedule", "token",
                                        "update",  "wake",    "workflow", "workspace"};
    size_t length = strcspn(act, " ");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == length && strncmp(words[i], act, length) == 0) {
            return true;
        }
    }
    return false;
}

/* The first word decides, as in the option `act` of a list of acts, so that no such list shows a noted act. */
static enum weir_status check_act_name(const char *act, struct weir_error *error)
{
    if (act[0] == '\0') {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the name of the act is empty");
    }
    if (is_act_of_store(act)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is the name of an act that weir itself records", act);
        error_hint(error, "give the act a name of its own, like \"signal\"");
        return WEIR_INVALID_ARGUMENT;
    }
    return check_act_text("name of the act", act, ACT_NAME_MAX, error);
}

enum weir_status store_note_act(struct store *store, const char *act, const char *subject, const char *detail_text,
                                struct weir_error *error)
{
    INVARIANT(store != NULL && act != NULL && subject != NULL);
    enum weir_status status = check_act_name(act, error);
    if (status == WEIR_OK) {
        status = check_act_text("subject of the act", subject, SUBJECT_MAX, error);
    }
    if (status == WEIR_OK) {
        status = check_act_text("detail of the act", detail_text, SUBJECT_MAX, error);
    }
    if (status != WEIR_OK || store_actor(store) == NULL) {
        return status;
    }
    CALL(store, "note_act", error, store->driver->note_act(store, act, subject, detail_text, detail));
}

enum weir_status store_purge_audit(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                   struct weir_error *error)
{
    INVARIANT(store != NULL && ret_removed != NULL);
    if (limit == 0 || limit > AUDIT_PURGE_MOST) {
        return error_set(error, WEIR_MISUSE, "a call removes 1 to %d acts", AUDIT_PURGE_MOST);
    }
    CALL(store, "purge_audit", error, store->driver->purge_audit(store, before_us, limit, ret_removed, detail));
}
