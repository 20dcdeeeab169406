#include "cli/output/json_fields.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

enum { FIELD_TEXT_MAX = 4 * 1024 * 1024 };

const char *field_text(struct output *output, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value)) {
        return NULL;
    }
    if (json_is_string(value)) {
        return output_safe(output, json_string_value(value));
    }
    struct text text = {.max = FIELD_TEXT_MAX};
    const char *copy = "";
    if (json_write(value, &text, NULL) == WEIR_OK) {
        copy = output_safe(output, text.data);
    }
    text_close(&text);
    return copy;
}

int64_t field_number(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool field_is_true(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_true(value) || (json_is_integer(value) && json_integer_value(value) != 0);
}

size_t page_size(const json_t *page)
{
    return json_array_size(json_object_get(page, "items"));
}

struct collection {
    json_t *items;
    bool is_whole;
};

static bool collect(void *context, const json_t *row)
{
    struct collection *collection = context;
    collection->is_whole = json_array_append_new(collection->items, json_deep_copy(row)) == 0;
    return collection->is_whole;
}

enum weir_status page_read(struct store *store, enum store_list_kind kind, const char *name, json_t **ret_page,
                           struct weir_error *error)
{
    struct list_options options = {.kind = kind, .name = name, .limit = LIST_LIMIT_MOST};
    return page_read_all(store, &options, ret_page, error);
}

enum weir_status page_read_all(struct store *store, const struct list_options *options, json_t **ret_page,
                               struct weir_error *error)
{
    struct collection all = {.items = json_array(), .is_whole = true};
    enum weir_status status =
        all.items == NULL ? error_out_of_memory(error) : store_list_each(store, options, collect, &all, error);
    json_t *page = NULL;
    if (status == WEIR_OK && all.is_whole) {
        page = json_pack("{s:O, s:n, s:I, s:b}", "items", all.items, "next_cursor", "count",
                         (json_int_t)json_array_size(all.items), "count_is_exact", 1);
    }
    json_decref(all.items);
    if (status == WEIR_OK && page == NULL) {
        return error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        *ret_page = page;
    }
    return status;
}

enum weir_status resolve_id(struct store *store, const char *id, char *to, struct weir_error *error)
{
    json_t *why = NULL;
    if (uuid_is_valid(id)) {
        text_copy(to, UUID_TEXT_MAX, id);
        for (char *at = to; *at != '\0'; at++) {
            *at = (char)(*at >= 'A' && *at <= 'F' ? *at - 'A' + 'a' : *at);
        }
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

bool field_is_held(const json_t *execution)
{
    return item_state_is_held(json_string_value(json_object_get(execution, "status")));
}

bool field_node_lives(const json_t *node)
{
    static const char *const gone[] = {"stopped", "dead", "expired"};
    const char *state = json_string_value(json_object_get(node, "state"));
    for (size_t i = 0; state != NULL && i < sizeof gone / sizeof gone[0]; i++) {
        if (strcmp(state, gone[i]) == 0) {
            return false;
        }
    }
    return state != NULL;
}
