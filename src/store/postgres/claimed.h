/* The data of assigned items: shared by the rounds of the scheduler and the inbox.
 *
 * A handle keeps the names of workspaces and definitions that it has read, so a round needs no statement for them. The
 * weight of a workspace changes with a fact of the scheduler (item_names_weigh()), and so does its name
 * (item_names_forget()). Threads: one at a time, as the handle. */
#ifndef WEIR_STORE_POSTGRES_CLAIMED_H
#define WEIR_STORE_POSTGRES_CLAIMED_H

#include "store/postgres/link/link.h"
#include "store/store.h"

enum { ITEM_NAMES_MOST = 65536 }; /* beyond it the cache is emptied */

struct item_name {
    int64_t key; /* id * 2, + 1 of a definition; 0 = free */
    int version; /* of a definition; the weight of a workspace */
    char *name;  /* NULL with a key: it is read again */
};

struct item_names {
    struct item_name *slots; /* open addressing; NULL = none yet */
    size_t count;
};

/* Forgets all names. Takes a zeroed struct. */
void item_names_clear(struct item_names *names);
/* The present weight of this workspace. */
void item_names_weigh(struct item_names *names, int64_t workspace_id, int weight);
/* The workspace may have another name. */
void item_names_forget(struct item_names *names, int64_t workspace_id);
/* Sets workspace, weight, workflow and version of each item; `workspace_ids` are parallel to them. A missing one gets
 * "" and 0. Errors of link_read(), WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status item_names_set(struct item_names *names, struct link *link, struct arena *arena,
                                                struct claimed_item *items, const int64_t *workspace_ids, size_t count,
                                                struct weir_error *error);

/* The params in a column: {} for NULL, and no bytes when they are lost (PARAMS_LOST_CODE). */
void claimed_set_params(struct claimed_item *item, const PGresult *result, int row, int column, struct arena *arena,
                        bool *ret_failed);
/* Reads the steps of the items that were taken over. They do not change: the former holder has lost its fence. */
WEIR_MUST_CHECK enum weir_status claimed_read_steps(struct link *link, struct arena *arena, struct claim_result *claim,
                                                    struct weir_error *error);
/* The signals, of items that have got any; signals.c. */
WEIR_MUST_CHECK enum weir_status claimed_read_signals(struct link *link, struct arena *arena, struct claim_result *claim,
                                                      struct weir_error *error);

#endif
