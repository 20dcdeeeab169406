/* The walk along the labels of a filter: the arrays that its statements take, and the window of one statement
 * (functions/label_walk.sql, functions/choose_labelled.sql). Any thread. */
#ifndef WEIR_STORE_POSTGRES_LABEL_WALK_H
#define WEIR_STORE_POSTGRES_LABEL_WALK_H

#include "store/postgres/link/link.h"
#include "store/reading.h"

struct label_walk {
    const char *names[LABEL_CONDITIONS_MAX + 1];
    const char *froms[LABEL_CONDITIONS_MAX + 1];
    const char *ends[LABEL_CONDITIONS_MAX + 1]; /* texts of `bounds` */
    struct label_bounds bounds[LABEL_CONDITIONS_MAX + 1];
    size_t count;
    int way; /* that of label_walk(); 0 = the filter has no labels */
};

/* The texts are the filter's; the struct must not be copied, because its members refer to each other. */
void label_walk_fill(const struct execution_filter *filter, struct label_walk *ret_walk);

/* One read of ids. */
struct label_span {
    bool ascending;
    const char *behind;
    const char *first;
    const char *last;
    unsigned states;
};
/* Chooses the label that is walked along, which becomes the first one, and finds the end of the window behind the cursor;
 * "" when it has all that follow. The errors are those of link_read(). */
WEIR_MUST_CHECK enum weir_status label_walk_choose(struct link *link, const struct execution_filter *filter,
                                                   const struct label_span *span, struct label_walk *walk,
                                                   char ret_window_end[UUID_TEXT_MAX], struct weir_error *error);

#endif
