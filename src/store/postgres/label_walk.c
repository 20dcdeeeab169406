/* Fills the arrays of labels that the statements of lists and acts take, and has label_walk() choose among them.
 *
 * 1. The conditions of the filter become arrays of names and bounds. Nothing is allocated.
 * 2. The database counts the entries of each label up to the size of a window, and chooses the rarest.
 * 3. That one is moved to the front, because choose_labelled() walks along the first one and looks up the others.
 *
 * It runs in the thread and the transaction of the caller, and changes nothing.
 */
#include "store/postgres/label_walk.h"

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum { WAY_OF_ALL_LABELS = 3 };

void label_walk_fill(const struct execution_filter *filter, struct label_walk *ret_walk)
{
    INVARIANT(filter != NULL && ret_walk != NULL);
    struct label_condition conditions[LABEL_CONDITIONS_MAX + 1];
    ret_walk->way = 0;
    ret_walk->count = label_conditions_of(filter, conditions);
    for (size_t i = 0; i < ret_walk->count; i++) {
        label_condition_bounds(&conditions[i], &ret_walk->bounds[i]);
        ret_walk->names[i] = conditions[i].name;
        ret_walk->froms[i] = conditions[i].value;
        ret_walk->ends[i] = ret_walk->bounds[i].end;
    }
}

static void swap_with_first(const char **texts, size_t place)
{
    const char *first = texts[0];
    texts[0] = texts[place];
    texts[place] = first;
}

enum weir_status label_walk_choose(struct link *link, const struct execution_filter *filter, const struct label_span *span,
                                   struct label_walk *walk, char ret_window_end[UUID_TEXT_MAX], struct weir_error *error)
{
    INVARIANT(walk->count > 0 && span->behind != NULL && span->first != NULL && span->last != NULL);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link, error, &result, QUERY_LABEL_WALK, "ouuutdTTToi", (int)span->ascending, span->behind, span->first,
                  span->last, filter->workspace, (int)span->states, walk->names, walk->count, walk->froms, walk->count,
                  walk->ends, walk->count, (int)(filter->id != NULL), (int64_t)LABEL_WINDOW_ROWS);
    if (status != WEIR_OK) {
        return status;
    }
    size_t place = (size_t)result_int(result, 0, 0) - 1;
    INVARIANT(place < walk->count);
    walk->way = (int)result_int(result, 0, 1);
    text_copy(ret_window_end, UUID_TEXT_MAX, PQgetisnull(result, 0, 2) ? "" : result_text(result, 0, 2));
    PQclear(result);
    swap_with_first(walk->names, place);
    swap_with_first(walk->froms, place);
    swap_with_first(walk->ends, place);
    if (walk->way == WAY_OF_ALL_LABELS && ret_window_end[0] != '\0') {
        reading_end_millisecond(ret_window_end, !span->ascending); /* it may be that of another workspace */
    }
    return WEIR_OK;
}
