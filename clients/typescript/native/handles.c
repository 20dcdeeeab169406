/* Handles of calls: the numbers by which JavaScript names them.
 *
 * A handle is the place of the call in a table, and how often that place was taken before. So the handle of a call that has
 * ended finds nothing, also when its place has a new call. A number costs the garbage collector nothing; an external for
 * each call would take a tenth of the time of the event loop's thread.
 *
 * The table belongs to an environment (a thread of Node), and only its event loop uses it: there is no lock. It does not
 * own the calls. A call that is in the table ends only together with its handle.
 */
#include "binding.h"

#include <stdlib.h>

enum { HANDLE_PLACE_BITS = 20, HANDLE_PLACES_FIRST = 64, HANDLE_PLACES_MAX = 1 << HANDLE_PLACE_BITS };

struct place {
    struct call *call;  /* NULL: free */
    uint32_t turn;      /* grows with each call of the place, so that no handle is 0 */
    uint32_t next_free; /* of a free place; HANDLE_PLACES_MAX = none */
};

struct handle_table {
    struct place *places;
    uint32_t count;
    uint32_t first_free;
};

static void free_table(napi_env env, void *data, void *unused)
{
    (void)env;
    (void)unused;
    struct handle_table *table = data;
    free(table->places);
    free(table);
}

bool handles_open(napi_env env)
{
    struct handle_table *table = calloc(1, sizeof *table);
    if (table == NULL || napi_set_instance_data(env, table, free_table, NULL) != napi_ok) {
        free(table);
        throw_type_error(env, "weir: there is no memory for the table of calls");
        return false;
    }
    table->first_free = HANDLE_PLACES_MAX;
    return true;
}

struct handle_table *handles_of(napi_env env)
{
    void *table = NULL;
    return napi_get_instance_data(env, &table) == napi_ok ? table : NULL;
}

/* Makes a free place. False: the table is full, or memory is short. */
static bool grow(struct handle_table *table)
{
    uint32_t count = table->count == 0 ? HANDLE_PLACES_FIRST : table->count * 2;
    struct place *places = count <= HANDLE_PLACES_MAX ? realloc(table->places, count * sizeof *places) : NULL;
    if (places == NULL) {
        return false;
    }
    for (uint32_t i = count; i-- > table->count;) { /* the lowest place is taken first */
        places[i] = (struct place){.next_free = table->first_free};
        table->first_free = i;
    }
    table->places = places;
    table->count = count;
    return true;
}

int64_t handles_add(struct handle_table *table, struct call *call)
{
    if (table->first_free == HANDLE_PLACES_MAX && !grow(table)) {
        return 0;
    }
    uint32_t at = table->first_free;
    struct place *place = &table->places[at];
    table->first_free = place->next_free;
    place->call = call;
    place->turn = place->turn == UINT32_MAX ? 1 : place->turn + 1;
    return ((int64_t)place->turn << HANDLE_PLACE_BITS) + at;
}

struct call *handles_find(napi_env env, napi_value value)
{
    const struct handle_table *table = handles_of(env);
    int64_t handle = 0;
    if (table == NULL || napi_get_value_int64(env, value, &handle) != napi_ok) {
        throw_type_error(env, "weir: an argument is not a call of this package");
        return NULL;
    }
    uint32_t at = (uint32_t)handle & (HANDLE_PLACES_MAX - 1);
    bool is_current = at < table->count && table->places[at].turn == (uint64_t)handle >> HANDLE_PLACE_BITS;
    return is_current ? table->places[at].call : NULL;
}

void handles_end(struct handle_table *table, int64_t handle)
{
    uint32_t at = (uint32_t)handle & (HANDLE_PLACES_MAX - 1);
    table->places[at].call = NULL;
    table->places[at].next_free = table->first_free;
    table->first_free = at;
}
