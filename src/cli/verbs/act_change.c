/* The change of an act as a text, and the acts that explain the pauses of a status.
 *
 * A change is shown key by key, from what to what. The acts of pauses are read after the status, one short list per paused
 * subject: most stores have none. Nothing here changes the store. One thread.
 */
#include "cli/verbs/act_change.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"

enum { VALUE_TEXT_MAX = 128, PAUSE_TEXT_MAX = ACTOR_MAX + REASON_MAX + 128, SUBJECT_TEXT_MAX = 256 };

/* --- changes --- */

/* "FAILED,CANCELLED". A text that is too long ends with the value that still fits. */
static void list_text(const json_t *list, char to[VALUE_TEXT_MAX])
{
    size_t used = 0;
    size_t i;
    const json_t *item;
    to[0] = '\0';
    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);
        if (text == NULL || used + strlen(text) + 2 > VALUE_TEXT_MAX) {
            return;
        }
        used += (size_t)snprintf(to + used, VALUE_TEXT_MAX - used, "%s%s", i == 0 ? "" : ",", text);
    }
}

/* A value of a setting for people; a text without quotes, "-" for none. */
static void value_text(const json_t *value, char to[VALUE_TEXT_MAX])
{
    if (value == NULL || json_is_null(value)) {
        text_copy(to, VALUE_TEXT_MAX, "-");
    } else if (json_is_string(value)) {
        text_copy(to, VALUE_TEXT_MAX, json_string_value(value));
    } else if (json_is_array(value)) {
        list_text(value, to);
    } else if (json_is_integer(value)) {
        (void)snprintf(to, VALUE_TEXT_MAX, "%lld", (long long)json_integer_value(value));
    } else {
        text_copy(to, VALUE_TEXT_MAX, json_is_true(value) ? "yes" : "no");
    }
}

void act_change_text(const json_t *before, const json_t *after, char to[ACT_CHANGE_TEXT_MAX])
{
    const char *key;
    json_t *value;
    size_t used = 0;
    to[0] = '\0';
    if (!json_is_object(after)) {
        text_copy(to, ACT_CHANGE_TEXT_MAX, json_is_object(before) ? "deleted" : "");
        return;
    }
    json_object_foreach((json_t *)after, key, value)
    {
        char from_text[VALUE_TEXT_MAX];
        char to_text[VALUE_TEXT_MAX];
        const json_t *old = json_object_get(before, key);
        if (json_is_object(before) && json_equal(old, value)) {
            continue;
        }
        value_text(old, from_text);
        value_text(value, to_text);
        int length = json_is_object(before)
                         ? snprintf(to + used, ACT_CHANGE_TEXT_MAX - used, "%s%s %s -> %s", used == 0 ? "" : ", ", key,
                                    from_text, to_text)
                         : snprintf(to + used, ACT_CHANGE_TEXT_MAX - used, "%s%s %s", used == 0 ? "" : ", ", key, to_text);
        used += length > 0 ? (size_t)length : 0;
        if (used >= ACT_CHANGE_TEXT_MAX) {
            return;
        }
    }
    if (used == 0) {
        text_copy(to, ACT_CHANGE_TEXT_MAX, "unchanged");
    }
}

void act_last_change_text(const struct store *store, char to[ACT_CHANGE_TEXT_MAX])
{
    json_t *before = NULL;
    json_t *after = NULL;
    store_last_change(store, &before, &after);
    act_change_text(before, after, to);
    json_decref(before);
    json_decref(after);
}

/* --- pauses --- */

/* Appends the last pause of the subject, if it is on record. */
static enum weir_status add_pause(struct store *store, const char *act, const char *subject, json_t *pauses,
                                  struct weir_error *error)
{
    struct list_options options = {.kind = LIST_AUDIT, .act = act, .name = subject, .limit = 1};
    json_t *page = NULL;
    enum weir_status status = store_list(store, &options, &page, error);
    const json_t *row = json_array_get(json_object_get(page, "items"), 0);
    if (status == WEIR_OK && row != NULL) {
        json_t *pause = json_pack("{s:O, s:O, s:O, s:O}", "subject", json_object_get(row, "subject"), "actor",
                                  json_object_get(row, "actor"), "at", json_object_get(row, "at"), "reason",
                                  json_object_get(row, "reason"));
        if (json_array_append_new(pauses, pause) != 0) {
            status = error_out_of_memory(error);
        }
    }
    json_decref(page);
    return status;
}

/* The paused rows of a list of the status. `prefix`: of the subject. */
static enum weir_status add_pauses_of(struct store *store, const json_t *rows, const char *act, const char *prefix,
                                      json_t *pauses, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        char subject[SUBJECT_TEXT_MAX];
        const char *name = json_string_value(json_object_get(row, "name"));
        if (status == WEIR_OK && name != NULL && field_is_true(row, "paused")) {
            (void)snprintf(subject, sizeof subject, "%s%s", prefix, name);
            status = add_pause(store, act, subject, pauses, error);
        }
    }
    return status;
}

enum weir_status act_add_pauses(struct store *store, json_t *status_json, struct weir_error *error)
{
    json_t *pauses = json_array();
    enum weir_status status =
        field_is_true(status_json, "queue_paused") ? add_pause(store, "pause", "queue", pauses, error) : WEIR_OK;
    if (status == WEIR_OK) {
        status = add_pauses_of(store, json_object_get(status_json, "groups"), "pause", "group ", pauses, error);
    }
    if (status == WEIR_OK) {
        status = add_pauses_of(store, json_object_get(status_json, "workspaces"), "workspace pause", "", pauses, error);
    }
    if (json_object_set_new(status_json, "pauses", pauses) != 0 && status == WEIR_OK) {
        status = error_out_of_memory(error);
    }
    return status;
}

const char *act_pause_text(struct output *output, const json_t *status_json, const char *subject, int64_t now_us)
{
    static char text[PAUSE_TEXT_MAX];
    size_t i;
    json_t *pause;
    text[0] = '\0';
    json_array_foreach(json_object_get(status_json, "pauses"), i, pause)
    {
        const char *its = json_string_value(json_object_get(pause, "subject"));
        if (its != NULL && strcmp(its, subject) == 0) {
            const char *reason = field_text(output, pause, "reason");
            (void)snprintf(text, sizeof text, " by %s, %s%s%s", field_text(output, pause, "actor"),
                           output_ago(output, field_text(output, pause, "at"), now_us), reason == NULL ? "" : ": ",
                           reason == NULL ? "" : reason);
        }
    }
    return text;
}
