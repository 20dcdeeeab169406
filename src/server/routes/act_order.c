/* Reads the options of acts: their types, and the members that each act takes. The rules of the values are in
 * store/bulk_act.h, so that the command line refuses the same. */
#include "server/routes/act_order.h"

#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "queue/limits.h"
#include "queue/name.h"

/* NULL: the member is not there, or null. */
static const json_t *option_of(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

/* A text with a NUL would be cut by the code that reads it. */
static const char *option_text(const json_t *value)
{
    return json_is_string(value) && !json_string_has_nul(value) ? json_string_value(value) : NULL;
}

static enum weir_status read_retry_members(const json_t *body, struct act_order *order, const char **ret_pointer,
                                           struct weir_error *error)
{
    const json_t *keeps = option_of(body, "keep_finished");
    const json_t *from = option_of(body, "from_step");
    *ret_pointer = "/keep_finished";
    if (keeps != NULL && !json_is_boolean(keeps)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "keep_finished must be true or false, not %s",
                         json_type_name(keeps));
    }
    *ret_pointer = "/from_step";
    order->from = option_text(from);
    order->keeps_finished = json_is_true(keeps) || from != NULL;
    return from == NULL || (order->from != NULL && name_is_valid(order->from))
               ? WEIR_OK
               : error_set(error, WEIR_INVALID_ARGUMENT, "from_step must be the name of a step");
}

static enum weir_status read_wake_members(const json_t *body, struct act_order *order, const char **ret_pointer,
                                          struct weir_error *error)
{
    const json_t *kind = option_of(body, "waiting_for");
    *ret_pointer = "/waiting_for";
    order->waits_for = option_text(kind);
    return kind == NULL || order->waits_for != NULL
               ? bulk_act_check_wait(order->waits_for, error)
               : error_set(error, WEIR_INVALID_ARGUMENT, "waiting_for must be the kind of a wait, not %s",
                           json_type_name(kind));
}

static enum weir_status read_migration_members(const json_t *body, struct act_order *order, const char **ret_pointer,
                                               struct weir_error *error)
{
    const json_t *version = option_of(body, "to_version");
    *ret_pointer = "/to_version";
    if (!json_is_integer(version) || json_integer_value(version) < 1 || json_integer_value(version) > INT32_MAX) {
        error_set(error, WEIR_INVALID_ARGUMENT, "to_version is the number of a version of the workflow");
        error_hint(error, "`weir workflow show NAME` lists the versions");
        return WEIR_INVALID_ARGUMENT;
    }
    order->to_version = (int)json_integer_value(version);
    return WEIR_OK;
}

enum weir_status act_order_read(const json_t *body, enum bulk_act act, struct act_order *ret_order,
                                const char **ret_pointer, struct weir_error *error)
{
    INVARIANT(ret_order != NULL && ret_pointer != NULL);
    struct act_order order = {.from = NULL};
    enum weir_status status = WEIR_OK;
    if (act != BULK_RETRY && (option_of(body, "keep_finished") != NULL || option_of(body, "from_step") != NULL)) {
        *ret_pointer = option_of(body, "keep_finished") != NULL ? "/keep_finished" : "/from_step";
        return error_set(error, WEIR_INVALID_ARGUMENT, "only a retry keeps finished steps");
    }
    if (act != BULK_WAKE && option_of(body, "waiting_for") != NULL) {
        *ret_pointer = "/waiting_for";
        return error_set(error, WEIR_INVALID_ARGUMENT, "only a wake ends waits of a kind");
    }
    if (act != BULK_MIGRATE && option_of(body, "to_version") != NULL) {
        *ret_pointer = "/to_version";
        return error_set(error, WEIR_INVALID_ARGUMENT, "only a migration has a version");
    }
    if (act == BULK_MIGRATE) {
        status = read_migration_members(body, &order, ret_pointer, error);
    } else if (act == BULK_RETRY) {
        status = read_retry_members(body, &order, ret_pointer, error);
    } else if (act == BULK_WAKE) {
        status = read_wake_members(body, &order, ret_pointer, error);
    }
    if (status == WEIR_OK) {
        *ret_order = order;
        *ret_pointer = NULL;
    }
    return status;
}

/* Compact JSON text of the value, which is there. */
static enum weir_status copy_signal_data(const json_t *value, struct arena *arena, const char **ret_data,
                                         struct weir_error *error)
{
    struct text text = {.max = SIGNAL_DATA_BYTES_MAX + 1};
    enum weir_status status = json_write(value, &text, error);
    bool is_too_large = status == WEIR_FAILED || text.length > SIGNAL_DATA_BYTES_MAX; /* WEIR_FAILED: of json_write() */
    if (is_too_large) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the data of the signal has more than %d bytes",
                           (int)SIGNAL_DATA_BYTES_MAX);
    }
    const char *copy = status == WEIR_OK ? arena_copy_string(arena, text.data) : NULL;
    text_close(&text);
    if (status == WEIR_OK && copy == NULL) {
        return error_out_of_memory(error);
    }
    *ret_data = copy;
    return status;
}

enum weir_status act_order_read_signal(const json_t *body, enum bulk_act act, struct arena *arena, struct act_order *order,
                                       const char **ret_pointer, struct weir_error *error)
{
    INVARIANT(arena != NULL && order != NULL && ret_pointer != NULL);
    const json_t *value = option_of(body, "signal");
    const json_t *data = json_object_get(value, "data");
    *ret_pointer = "/signal";
    if ((act == BULK_SIGNAL) != (value != NULL)) {
        return error_set(error, WEIR_INVALID_ARGUMENT,
                         value != NULL ? "only the action signal has a signal"
                                       : "the action signal needs signal: {\"name\", \"data\", \"key\"}");
    }
    if (value == NULL) {
        *ret_pointer = NULL;
        return WEIR_OK;
    }
    order->signal_name = option_text(json_object_get(value, "name"));
    order->signal_key = option_text(json_object_get(value, "key"));
    if (order->signal_name == NULL || order->signal_key == NULL || json_object_size(value) != (data == NULL ? 2U : 3U)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "signal has a name, a key, and perhaps data");
    }
    enum weir_status status = data == NULL ? WEIR_OK : copy_signal_data(data, arena, &order->signal_data, error);
    if (status == WEIR_OK) {
        status = bulk_act_check_signal(order, error);
    }
    if (status == WEIR_OK) {
        *ret_pointer = NULL;
    }
    return status;
}
