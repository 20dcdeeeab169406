/* The cursor and the filter of a list, each kind of list on a real store: "KIND CURSOR", a new line, the words of --where.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/filter.h"
#include "store_scene.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KINDS = LIST_GROUPS + 1, MEMORY_MAX = 1024 * 1024, PAGES_MOST = 20 };

static void read_pages(struct store *store, struct list_options *options)
{
    json_t *page = NULL;
    struct weir_error error = {.status = WEIR_OK};
    for (int i = 0; i < PAGES_MOST; i++) {
        json_t *next_page = NULL;
        if (store_list(store, options, &next_page, &error) != WEIR_OK) {
            INVARIANT(error.message[0] != '\0');
            break;
        }
        json_decref(page);
        page = next_page;
        options->cursor = json_string_value(json_object_get(page, "next_cursor"));
        INVARIANT(json_array_size(json_object_get(page, "items")) <= options->limit);
        if (options->cursor == NULL) {
            break;
        }
        INVARIANT(i + 1 < PAGES_MOST); /* 8 executions by pages of 2: a list that does not end */
    }
    json_decref(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct store_scene scene;
    static struct store *store;
    struct arena arena;
    struct weir_error error = {.status = WEIR_OK};
    if (store == NULL) {
        store_scene_make(&scene);
        store = store_scene_open(&scene);
        INVARIANT(store != NULL);
    }
    char *text = malloc(size + 1);
    if (text == NULL || size == 0) {
        free(text);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    char *where = strchr(text, '\n');
    if (where != NULL) {
        *where++ = '\0';
    }
    arena_init(&arena, MEMORY_MAX);
    struct list_options options = {.kind = (enum store_list_kind)((unsigned char)text[0] % KINDS),
                                   .cursor = text[0] != '\0' && text[1] != '\0' ? text + 1 : NULL,
                                   .limit = 2};
    if (options.kind == LIST_EVENTS || options.kind == LIST_STEPS) {
        options.filter.id = scene.ids[0];
    }
    if (where == NULL || filter_parse(where, 1000000, &arena, &options.filter, &error) == WEIR_OK) {
        read_pages(store, &options);
    } else {
        INVARIANT(error.message[0] != '\0');
    }
    arena_close(&arena);
    free(text);
    return 0;
}
