/* The data of assigned items: names, params, and the steps of items that ran before.
 *
 * Each handle has a cache of the names of workspaces and definitions: an open hash table by id. An assignment of known
 * names needs no statement. The name of a definition never changes. The act of a rename makes the scheduler forget the name
 * of the workspace before it assigns again, and an inbox has the present names in its rows. Steps are read only for items
 * with an interruption, and once per set: the former holder has lost its fence, so they do not change.
 *
 * This file never writes the store. It runs in the thread that has the handle. */
#include "store/postgres/claimed.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"

/* --- names --- */

enum { SLOTS = 2 * ITEM_NAMES_MOST }; /* at most half full */

void item_names_clear(struct item_names *names)
{
    INVARIANT(names != NULL);
    for (size_t i = 0; i < SLOTS && names->slots != NULL; i++) {
        free(names->slots[i].name);
    }
    free(names->slots);
    *names = (struct item_names){.slots = NULL};
}

/* Workspaces and definitions share one table, so the lowest bit keeps their ids apart. */
static int64_t name_key(bool is_definition, int64_t id)
{
    return id * 2 + is_definition;
}

/* The slot of this key, or the free one where it belongs. */
static struct item_name *find_name(const struct item_names *names, int64_t key)
{
    size_t at = (size_t)key % SLOTS;
    while (names->slots[at].key != 0 && names->slots[at].key != key) {
        at = (at + 1) % SLOTS;
    }
    return &names->slots[at];
}

/* False: memory ran out. */
static bool add_name(struct item_names *names, int64_t key, const char *name, int version)
{
    struct item_name *slot = find_name(names, key);
    char *copy = slot->name == NULL ? strdup(name) : NULL;
    if (copy != NULL) {
        names->count += slot->key == 0;
        *slot = (struct item_name){.key = key, .version = version, .name = copy};
    }
    return slot->name != NULL;
}

void item_names_weigh(struct item_names *names, int64_t workspace_id, int weight)
{
    struct item_name *slot = names->slots == NULL ? NULL : find_name(names, name_key(false, workspace_id));
    if (slot != NULL && slot->key != 0) {
        slot->version = weight;
    }
}

/* The slot stays, so that the search for other keys goes on behind it. */
void item_names_forget(struct item_names *names, int64_t workspace_id)
{
    struct item_name *slot = names->slots == NULL ? NULL : find_name(names, name_key(false, workspace_id));
    if (slot != NULL) {
        free(slot->name);
        slot->name = NULL;
    }
}

/* The ids without a name in the cache; an id may occur more than once. */
struct unknown_names {
    int64_t *workspaces;
    size_t workspace_count;
    int64_t *definitions;
    size_t definition_count;
};

static void list_unknown(const struct item_names *names, const struct claimed_item *items, const int64_t *workspace_ids,
                         size_t count, struct unknown_names *unknown)
{
    unknown->workspace_count = 0;
    unknown->definition_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (find_name(names, name_key(false, workspace_ids[i]))->name == NULL) {
            unknown->workspaces[unknown->workspace_count++] = workspace_ids[i];
        }
        if (find_name(names, name_key(true, items[i].definition_id))->key == 0) {
            unknown->definitions[unknown->definition_count++] = items[i].definition_id;
        }
    }
}

static enum weir_status read_names(struct item_names *names, struct link *link, const struct unknown_names *unknown,
                                   struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_READ_NAMES, "II", unknown->workspaces,
                                        unknown->workspace_count, unknown->definitions, unknown->definition_count);
    for (int row = 0; status == WEIR_OK && row < PQntuples(result); row++) {
        int64_t key = name_key(result_bool(result, row, 0), result_int(result, row, 1));
        if (!add_name(names, key, result_text(result, row, 2), (int)result_int(result, row, 3))) {
            status = error_out_of_memory(error);
        }
    }
    PQclear(result);
    return status;
}

/* Reads the names that are not in the cache. If they do not fit, the cache is emptied first. */
static enum weir_status read_missing_names(struct item_names *names, struct link *link, struct arena *arena,
                                           const struct claimed_item *items, const int64_t *workspace_ids, size_t count,
                                           struct weir_error *error)
{
    struct unknown_names unknown = {.workspaces = arena_allocate(arena, (count + 1) * sizeof *unknown.workspaces),
                                    .definitions = arena_allocate(arena, (count + 1) * sizeof *unknown.definitions)};
    if (names->slots == NULL) {
        names->slots = calloc(SLOTS, sizeof *names->slots);
    }
    if (names->slots == NULL || unknown.workspaces == NULL || unknown.definitions == NULL) {
        return error_out_of_memory(error);
    }
    list_unknown(names, items, workspace_ids, count, &unknown);
    if (names->count + unknown.workspace_count + unknown.definition_count > ITEM_NAMES_MOST) {
        item_names_clear(names);
        return read_missing_names(names, link, arena, items, workspace_ids, count, error);
    }
    return unknown.workspace_count + unknown.definition_count == 0 ? WEIR_OK : read_names(names, link, &unknown, error);
}

enum weir_status item_names_set(struct item_names *names, struct link *link, struct arena *arena,
                                struct claimed_item *items, const int64_t *workspace_ids, size_t count,
                                struct weir_error *error)
{
    INVARIANT(names != NULL && link != NULL && arena != NULL);
    if (count == 0) {
        return WEIR_OK;
    }
    INVARIANT(items != NULL && workspace_ids != NULL);
    enum weir_status status = read_missing_names(names, link, arena, items, workspace_ids, count, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        const struct item_name *workspace = find_name(names, name_key(false, workspace_ids[i]));
        const struct item_name *workflow = find_name(names, name_key(true, items[i].definition_id));
        items[i].workspace = workspace->name == NULL ? "" : arena_copy_string(arena, workspace->name);
        items[i].weight = workspace->version;
        items[i].workflow = workflow->key == 0 ? "" : arena_copy_string(arena, workflow->name);
        items[i].version = workflow->version;
        if (items[i].workspace == NULL || items[i].workflow == NULL) {
            status = error_out_of_memory(error);
        }
    }
    return status;
}

/* --- params --- */

void claimed_set_params(struct claimed_item *item, const PGresult *result, int row, int column, struct arena *arena,
                        bool *ret_failed)
{
    INVARIANT(item != NULL && arena != NULL && ret_failed != NULL);
    item->params = "{}";
    item->params_length = 2;
    if (!result_null(result, row, column)) {
        item->params = result_bytes(result, row, column, arena, &item->params_length, ret_failed);
    }
}

/* --- steps of earlier claims --- */

static void read_step_row(const PGresult *result, int row, struct arena *arena, int64_t now_us, struct step_record *step,
                          bool *ret_failed)
{
    text_copy(step->step, sizeof step->step, result_text(result, row, 1));
    if (!step_state_parse(result_text(result, row, 2), &step->state)) {
        step->state = STEP_RUNNING;
    }
    step->attempt = (int)result_int(result, row, 3);
    step->failures = (int)result_int(result, row, 4);
    step->exit_code = result_null(result, row, 5) ? -1 : (int)result_int(result, row, 5);
    step->due_us = result_int(result, row, 6);
    step->due_in_us = step->due_us > now_us ? step->due_us - now_us : 0;
    if (!result_null(result, row, 11)) {
        text_copy(step->signal, sizeof step->signal, result_text(result, row, 11));
        step->due_in_us = result_null(result, row, 6) ? TIME_NEVER : step->due_in_us;
    }
    step->finished_us = result_null(result, row, 12) ? 0 : result_int(result, row, 12);
    /* The arena owns these strings: the receiver copies them and does not free them. */
    step->output = (char *)(uintptr_t)result_bytes(result, row, 7, arena, &step->output_length, ret_failed);
    step->variables = (char *)(uintptr_t)result_bytes(result, row, 8, arena, NULL, ret_failed);
    text_copy(step->error_code, sizeof step->error_code, result_null(result, row, 9) ? "" : result_text(result, row, 9));
    step->error = (char *)(uintptr_t)result_copy(result, row, 10, arena, ret_failed);
}

static int compare_claimed_items(const void *a, const void *b)
{
    const struct claimed_item *const *x = a;
    const struct claimed_item *const *y = b;
    return strcmp((*x)->id, (*y)->id);
}

/* Gives each of the items its steps. Items and rows are in the order of the ids, so both are passed once. */
static bool attach_steps(const PGresult *result, struct arena *arena, int64_t now_us, struct claimed_item *const *items,
                         size_t item_count)
{
    size_t count = (size_t)PQntuples(result);
    struct step_record *steps = arena_allocate(arena, (count + 1) * sizeof *steps);
    bool failed = steps == NULL;
    size_t at = 0;
    for (size_t i = 0; i < count && !failed; i++) {
        const char *id = result_text(result, (int)i, 0);
        while (at < item_count && strcmp(items[at]->id, id) != 0) {
            at++; /* an item may have no step on record */
        }
        INVARIANT(at < item_count);
        items[at]->steps = items[at]->step_count == 0 ? &steps[i] : items[at]->steps;
        read_step_row(result, (int)i, arena, now_us, &steps[i], &failed);
        items[at]->step_count++;
    }
    return !failed;
}

enum weir_status claimed_read_steps(struct link *link, struct arena *arena, struct claim_result *claim,
                                    struct weir_error *error)
{
    INVARIANT(claim != NULL && (claim->items != NULL || claim->count == 0));
    const char **ids = arena_allocate(arena, (claim->count + 1) * sizeof *ids);
    struct claimed_item **items = arena_allocate(arena, (claim->count + 1) * sizeof *items);
    size_t count = 0;
    PGresult *result = NULL;
    if (ids == NULL || items == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < claim->count; i++) {
        if (claim->items[i].interruptions > 0) {
            items[count++] = &claim->items[i];
        }
    }
    if (count == 0) {
        return WEIR_OK;
    }
    qsort(items, count, sizeof(struct claimed_item *), compare_claimed_items);
    for (size_t i = 0; i < count; i++) {
        ids[i] = items[i]->id;
    }
    enum weir_status status = link_read(link, error, &result, QUERY_READ_STEPS, "U", ids, count);
    if (status == WEIR_OK && !attach_steps(result, arena, claim->now_us, items, count)) {
        status = error_out_of_memory(error);
    }
    PQclear(result);
    return status;
}
