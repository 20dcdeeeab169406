/* `weir update`: moves an execution with states to another state, and sets variables.
 *
 * The store checks names, types and sizes, and refuses an execution that a node holds (store/states.h). A value is JSON, or
 * a text where it is none: `--var owner=eve` and `--var amount=3` need no quotes of their own. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/verbs/verb.h"
#include "store/bulk_act.h"
#include "store/rehearsal.h"

enum { UPDATE_TEXT_MAX = STATE_VARIABLES_BYTES_MAX + 1024 };

/* A word that is no JSON is a text. */
static json_t *value_of(const char *text)
{
    json_t *value = NULL;
    return json_read(text, strlen(text), &value, NULL) == WEIR_OK ? value : json_string(text);
}

/* A text that is a number of JSON, and that the reader has refused: it fits no number. As a text of the same digits it
 * would be refused for its type, or be stored as what it was not meant to be. */
static bool is_number_text(const char *text)
{
    const char *at = text + (text[0] == '-');
    size_t digits = strspn(at, "0123456789");
    if (digits == 0 || (at[0] == '0' && digits > 1)) {
        return false;
    }
    at += digits;
    if (at[0] == '.') {
        digits = strspn(at + 1, "0123456789");
        at += digits == 0 ? 0 : digits + 1;
    }
    if (at[0] == 'e' || at[0] == 'E') {
        const char *exponent = at + 1 + (at[1] == '-' || at[1] == '+');
        digits = strspn(exponent, "0123456789");
        at = digits == 0 ? at : exponent + digits;
    }
    return at[0] == '\0';
}

/* A list or an object with such a number in it. As a text it would be stored as what it was not meant to be. */
static bool has_large_number(const char *text)
{
    const char *at = text + strspn(text, " \t\r\n");
    return (at[0] == '[' || at[0] == '{') && json_has_large_number(text, strlen(text));
}

static enum weir_status refuse_number(const char *pair, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "--var \"%.80s\" has a number that is too large", pair);
    error_hint(error, "an integer has at most 64 bits; as a text it stands in quotes: --var 'NAME=\"%.60s\"'",
               strchr(pair, '=') + 1);
    return WEIR_INVALID_ARGUMENT;
}

/* --var NAME=VALUE as the members of one object, whose text is in `to`. */
static enum weir_status read_variable_flags(const struct invocation *invocation, struct text *to, struct weir_error *error)
{
    size_t count = 0;
    const char *const *pairs = invocation_texts(invocation, "var", &count);
    json_t *object = json_object();
    enum weir_status status = object == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        const char *equals = strchr(pairs[i], '=');
        char name[STATE_VARIABLE_NAME_MAX + 2]; /* the store refuses one that is cut */
        if (equals == NULL || equals == pairs[i]) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "--var \"%.80s\" is not NAME=VALUE", pairs[i]);
            error_hint(error, "for example --var amount=3, or --var 'items=[1, 2]'");
            break;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)(equals - pairs[i]), pairs[i]);
        if (json_object_get(object, name) != NULL) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "the variable %s is given twice", name);
        } else if (json_object_set_new(object, name, value_of(equals + 1)) != 0) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "--var \"%.80s\" is not UTF-8", pairs[i]);
        } else if (json_is_string(json_object_get(object, name)) &&
                   (is_number_text(equals + 1) || has_large_number(equals + 1))) {
            status = refuse_number(pairs[i], error);
        }
    }
    if (status == WEIR_OK && count > 0) {
        status = json_write(object, to, error);
    }
    json_decref(object);
    return status;
}

enum weir_status verb_update(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    struct updated_state updated = {.action = 0};
    struct text variables = {.max = UPDATE_TEXT_MAX};
    char whole[UUID_TEXT_MAX];
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = read_variable_flags(invocation, &variables, error);
    const struct state_update update = {.state = invocation_text(invocation, "state"),
                                        .variables = variables.data,
                                        .if_state = invocation_text(invocation, "if-state")};
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, is_dry_run ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        status = execution_complete_id(store, invocation_argument(invocation, 0), whole, error);
    }
    if (status == WEIR_OK) {
        status = is_dry_run ? rehearse_update(store, whole, &update, &updated, error)
                            : store_update_state(store, whole, &update, &updated, error);
    }
    if (status == WEIR_OK) {
        output_report(invocation->output, "%s %s in the state %s", updated.id, is_dry_run ? "would be" : "is",
                      updated.state);
        status = verb_print_act(invocation,
                                json_pack("{s:s, s:s, s:s, s:i}", "id", updated.id, "act", "update", "state", updated.state,
                                          "seq", updated.action),
                                error);
    }
    text_close(&variables);
    store_close(store);
    return status;
}
