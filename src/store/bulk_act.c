/* The rules around a bulk act, made of reads of the store.
 *
 * A dry run counts instead of acting: the matches whose state allows the act, and of a retry those that were retried
 * already. Nothing here changes the store. A count that ends before the list is no exact number, and an expected number
 * never equals it. */
#include "store/bulk_act.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/rehearsal.h"

#define BIT(state) (1U << (state))

/* The names are those of the commands. */
enum weir_status bulk_act_parse(const char *name, enum bulk_act *ret_act, struct weir_error *error)
{
    INVARIANT(ret_act != NULL);
    for (int i = BULK_CANCEL; i <= BULK_MIGRATE && name != NULL; i++) {
        if (strcmp(name, bulk_act_name((enum bulk_act)i)) == 0) {
            *ret_act = (enum bulk_act)i;
            return WEIR_OK;
        }
    }
    return error_set(error, WEIR_INVALID_ARGUMENT,
                     "action is cancel, retry, release, wake, dismiss, purge, signal or migrate%s%.64s%s",
                     name == NULL ? "" : ", not \"", name == NULL ? "" : name, name == NULL ? "" : "\"");
}

unsigned bulk_act_states(enum bulk_act act)
{
    switch (act) {
    case BULK_CANCEL:
    case BULK_SIGNAL:
        return BIT(ITEM_PENDING) | BIT(ITEM_CLAIMED) | BIT(ITEM_DISPATCHED) | BIT(ITEM_WAITING);
    case BULK_RETRY:
        return BIT(ITEM_FAILED) | BIT(ITEM_CANCELLED);
    case BULK_RELEASE:
        return BIT(ITEM_PENDING);
    case BULK_WAKE: /* a step may wait in its node, or behind a slot */
        return BIT(ITEM_PENDING) | BIT(ITEM_CLAIMED) | BIT(ITEM_DISPATCHED) | BIT(ITEM_WAITING);
    case BULK_MIGRATE:
        return BIT(ITEM_PENDING) | BIT(ITEM_WAITING);
    case BULK_DISMISS:
        return BIT(ITEM_FAILED);
    case BULK_PURGE:
        return BIT(ITEM_COMPLETED) | BIT(ITEM_FAILED) | BIT(ITEM_CANCELLED);
    }
    return 0;
}

enum weir_status execution_complete_id(struct store *store, const char *id, char *to, struct weir_error *error)
{
    INVARIANT(id != NULL && to != NULL);
    json_t *why = NULL;
    if (uuid_is_valid(id)) {
        uuid_write_small(id, to);
        return WEIR_OK;
    }
    enum weir_status status = store_why(store, id, &why, error);
    const char *whole = json_string_value(json_object_get(why, "id"));
    if (status == WEIR_OK) {
        text_copy(to, UUID_TEXT_MAX, whole != NULL ? whole : "");
    }
    json_decref(why);
    return status;
}

enum weir_status bulk_act_check_wait(const char *waits_for, struct weir_error *error)
{
    enum wait_kind kind = WAIT_SLEEP;
    if (waits_for != NULL && !wait_kind_parse(waits_for, &kind)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is not a kind of wait", waits_for);
        error_hint(error, "waiting_for is sleep, retry, signal, callback or child");
        return WEIR_INVALID_ARGUMENT;
    }
    if (kind == WAIT_APPROVAL) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a wake cannot end the wait for an approval");
        error_hint(error, "decide with `weir approve ID` or `weir reject ID`");
        return WEIR_INVALID_ARGUMENT;
    }
    if (kind == WAIT_MANUAL) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a wake cannot end the wait for a person in a manual state");
        error_hint(error, "move the execution on with `weir update ID --state STATE`");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

enum weir_status bulk_act_check_waits(enum bulk_act act, const struct act_order *order,
                                      const struct execution_filter *filter, struct weir_error *error)
{
    INVARIANT(order != NULL && filter != NULL);
    const char *kind = filter->waiting_for;
    if (act != BULK_WAKE || order->waits_for != NULL || kind == NULL) {
        return WEIR_OK;
    }
    if (strcmp(kind, wait_kind_name(WAIT_SIGNAL)) == 0 || strcmp(kind, wait_kind_name(WAIT_CALLBACK)) == 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a wake without `waiting_for` ends no wait for a %s", kind);
        error_hint(error, "with waiting_for %s (--waiting-for) it ends those with a timeout, as if that had come", kind);
        return WEIR_INVALID_ARGUMENT;
    }
    return bulk_act_check_wait(kind, error);
}

enum weir_status bulk_act_check_signal(const struct act_order *order, struct weir_error *error)
{
    INVARIANT(order != NULL);
    const struct signal_request request = {
        .name = order->signal_name, .data = order->signal_data, .key = order->signal_key};
    enum weir_status status = signal_request_check(&request, error);
    if (status == WEIR_OK && request.key == NULL) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "a signal to many executions needs a key");
        error_hint(error, "with a key each execution gets it once, also when the act is repeated");
    }
    return status;
}

enum weir_status bulk_act_check_migration(const struct act_order *order, const struct execution_filter *filter,
                                          struct weir_error *error)
{
    INVARIANT(order != NULL && filter != NULL);
    if (order->to_version < 1) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a migration needs the version that the executions get");
        error_hint(error, "`weir workflow show NAME` lists the versions");
        return WEIR_INVALID_ARGUMENT;
    }
    if (filter->id == NULL && filter->workflow == NULL) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the filter of a migration names the workflow");
        error_hint(error, "add workflow=NAME: versions of two workflows have nothing in common");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

/* --- by filter --- */

/* A filter without states gets those that the act can change. Executions that are made later do not match, so an act that
 * works in chunks ends. */
void bulk_act_complete_filter(enum bulk_act act, int64_t now_us, struct execution_filter *filter)
{
    INVARIANT(filter != NULL);
    if (filter->id != NULL) {
        return; /* it names one execution, as it would without a filter */
    }
    if (filter->states == 0) {
        filter->states = act == BULK_WAKE ? BIT(ITEM_WAITING) : bulk_act_states(act);
    }
    if (filter->created_before_us == 0) {
        filter->created_before_us = now_us + 1;
    }
}

/* The page has one row, because only the count is wanted. */
enum weir_status bulk_act_count(struct store *store, const struct execution_filter *filter,
                                struct bulk_matches *ret_matches, struct weir_error *error)
{
    INVARIANT(store != NULL && filter != NULL && ret_matches != NULL);
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = *filter, .limit = 1, .count = true};
    enum weir_status status = store_list(store, &options, &page, error);
    if (status == WEIR_OK) {
        *ret_matches = (struct bulk_matches){.matched = (int64_t)json_integer_value(json_object_get(page, "count")),
                                             .is_exact = json_is_true(json_object_get(page, "count_is_exact"))};
    }
    json_decref(page);
    return status;
}

/* An inexact number is never the expected one: it is a lower bound. */
enum weir_status bulk_act_expect(const struct bulk_matches *matches, int64_t expected, struct weir_error *error)
{
    INVARIANT(matches != NULL);
    if (expected < 0 || (expected == matches->matched && matches->is_exact)) {
        return WEIR_OK;
    }
    error_set(error, WEIR_CONFLICT, "%" PRId64 "%s %s, not %" PRId64 ": nothing was changed", matches->matched,
              matches->is_exact ? "" : "+", matches->matched == 1 ? "execution matches" : "executions match", expected);
    error_hint(error, "`weir list --where ...` shows them");
    return WEIR_CONFLICT;
}

/* Counts the executions among the matches that were retried already: another retry of them is refused. */
static enum weir_status count_retried(struct store *store, enum bulk_act act, const struct execution_filter *filter,
                                      int64_t possible, struct bulk_matches *matches, struct weir_error *error)
{
    struct bulk_matches retried = {.matched = 0};
    struct execution_filter narrowed = *filter;
    if (act != BULK_RETRY || filter->retried == CONDITION_NO || possible == 0) {
        return WEIR_OK;
    }
    narrowed.retried = CONDITION_YES;
    enum weir_status status = bulk_act_count(store, &narrowed, &retried, error);
    matches->retried = retried.matched;
    matches->refused += retried.matched;
    return status;
}

/* No state decides whether the steps on record fit, so each match is looked at, in chunks and up to a limit: a server has
 * few threads. The counts are then those of the look. */
static enum weir_status rehearse_migration(struct store *store, const struct act_order *order,
                                           const struct execution_filter *filter, struct bulk_matches *matches,
                                           struct weir_error *error)
{
    struct act_order check = *order;
    struct bulk_result result = {.more = true};
    struct bulk_matches seen = {.is_exact = true};
    char after[UUID_TEXT_MAX] = "";
    enum weir_status status = WEIR_OK;
    check.only_checks = true;
    while (status == WEIR_OK && result.more && seen.is_exact) {
        result = (struct bulk_result){.matched = 0};
        status = store_bulk_ordered(store, BULK_MIGRATE, &check, filter, after, BULK_CHUNK, &result, error);
        seen.matched += (int64_t)result.matched;
        seen.refused += (int64_t)result.refused;
        text_copy(after, sizeof after, result.last_id);
        seen.is_exact = !result.more || seen.matched < MIGRATIONS_REHEARSED_MOST;
    }
    if (status == WEIR_OK) {
        *matches = seen;
    }
    return status;
}

/* The states of the filter are narrowed to those that allow the act; the difference of both counts is refused. No second
 * count is made when the filter has no other states. */
enum weir_status bulk_act_rehearse(struct store *store, enum bulk_act act, const struct act_order *order,
                                   const struct execution_filter *filter, struct bulk_matches *matches,
                                   struct weir_error *error)
{
    INVARIANT(store != NULL && filter != NULL && matches != NULL);
    if (act == BULK_MIGRATE) {
        return rehearse_migration(store, order, filter, matches, error);
    }
    struct execution_filter narrowed = *filter;
    struct bulk_matches allowed = *matches;
    unsigned possible = bulk_act_states(act);
    unsigned wanted = filter->states; /* 0 = any, of one that is named by its id */
    enum weir_status status = WEIR_OK;
    if (wanted == 0 || (wanted & ~possible) != 0) {
        allowed = (struct bulk_matches){.matched = 0};
        narrowed.states = wanted == 0 ? possible : wanted & possible;
        if (narrowed.states != 0) {
            status = bulk_act_count(store, &narrowed, &allowed, error);
        }
    }
    if (status == WEIR_OK && act == BULK_RETRY && allowed.matched > 0) {
        bool any = true;
        status = rehearse_retries(store, filter, order, &any, error);
        allowed.matched = any ? allowed.matched : 0;
    }
    matches->refused = matches->matched - allowed.matched;
    return status == WEIR_OK ? count_retried(store, act, &narrowed, allowed.matched, matches, error) : status;
}

/* --- by id --- */

/* An execution is retried once, unless the execution that the retry made is purged. */
static enum weir_status refuse_retried(struct store *store, const json_t *execution, struct weir_error *error)
{
    const char *new_id = NULL;
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(execution, "events"), i, event)
    {
        const char *name = json_string_value(json_object_get(event, "event"));
        if (name != NULL && strcmp(name, "retry") == 0) {
            new_id = json_string_value(json_object_get(event, "detail"));
        }
    }
    if (new_id == NULL) {
        return WEIR_OK;
    }
    json_t *retry = NULL;
    enum weir_status status = store_show(store, new_id, &retry, error);
    json_decref(retry);
    if (status != WEIR_OK) {
        return status == WEIR_EXECUTION_NOT_FOUND ? WEIR_OK : status;
    }
    return error_set(error, WEIR_CONFLICT, "execution %s was retried already, as %s",
                     json_string_value(json_object_get(execution, "id")), new_id);
}

/* A wake ends waits that are on record; a workflow on Temporal never has one. Of which kind the wait is, and whether a wake
 * has ended it already, only the act finds out. */
static enum weir_status refuse_without_wait(const json_t *execution, struct weir_error *error)
{
    size_t i;
    const json_t *step;
    json_array_foreach(json_object_get(execution, "steps"), i, step)
    {
        const char *state = json_string_value(json_object_get(step, "status"));
        if (state != NULL && strcmp(state, "WAITING") == 0) {
            return WEIR_OK;
        }
    }
    return error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s: " REFUSAL_WAKE_NOTHING,
                     json_string_value(json_object_get(execution, "id")),
                     json_string_value(json_object_get(execution, "status")));
}

static enum weir_status rehearse_migration_of(struct store *store, const struct act_order *order, const char *id,
                                              struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    struct bulk_result result = {.matched = 0};
    struct act_order check = *order;
    const struct execution_filter filter = {.id = whole};
    check.only_checks = true;
    enum weir_status status = execution_complete_id(store, id, whole, error);
    return status == WEIR_OK ? store_bulk_one(store, BULK_MIGRATE, &check, &filter, &result, error) : status;
}

enum weir_status bulk_act_rehearse_one(struct store *store, enum bulk_act act, const struct act_order *order,
                                       const char *id, struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL);
    json_t *execution = NULL;
    enum item_state state = ITEM_PENDING;
    if (act == BULK_MIGRATE) {
        return rehearse_migration_of(store, order, id, error);
    }
    enum weir_status status = store_show(store, id, &execution, error);
    if (status == WEIR_OK) {
        const char *name = json_string_value(json_object_get(execution, "status"));
        if (name == NULL || !item_state_parse(name, &state)) {
            status = error_set(error, WEIR_STORE_CORRUPT, "the row of execution %s has the unknown status \"%s\"", id,
                               name == NULL ? "" : name);
        } else if ((bulk_act_states(act) & BIT(state)) == 0) {
            status = error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s: `weir %s` cannot change it",
                               json_string_value(json_object_get(execution, "id")), name, bulk_act_name(act));
        }
    }
    if (status == WEIR_OK && act == BULK_RETRY) {
        status = refuse_retried(store, execution, error);
        status = status == WEIR_OK ? rehearse_retry(store, execution, order, error) : status;
    } else if (status == WEIR_OK && act == BULK_WAKE) {
        status = refuse_without_wait(execution, error);
    }
    json_decref(execution);
    return status;
}

/* --- answers --- */

json_t *bulk_act_item(enum bulk_act act, const struct bulk_result *result)
{
    INVARIANT(result != NULL);
    json_t *item = json_pack("{s:s, s:s}", "id", result->last_id, "act", bulk_act_name(act));
    if (act == BULK_CANCEL && json_object_set_new(item, "cancel_requested", json_boolean(result->requested > 0)) != 0) {
        json_decref(item);
        return NULL;
    }
    if (item != NULL && result->new_id[0] != '\0' &&
        json_object_set_new(item, "new_id", json_string(result->new_id)) != 0) {
        json_decref(item);
        return NULL;
    }
    return item;
}

json_t *bulk_act_summary(enum bulk_act act, const struct bulk_matches *matches, int64_t changed, int64_t requested,
                         bool is_dry_run)
{
    INVARIANT(matches != NULL);
    json_t *summary = json_pack("{s:s, s:I, s:b, s:I, s:I, s:b}", "act", bulk_act_name(act), "matched",
                                (json_int_t)matches->matched, "matched_is_exact", matches->is_exact, "changed",
                                (json_int_t)changed, "refused", (json_int_t)matches->refused, "dry_run", is_dry_run);
    if (act == BULK_CANCEL && !is_dry_run && json_object_set_new(summary, "requested", json_integer(requested)) != 0) {
        json_decref(summary);
        return NULL;
    }
    return summary;
}
