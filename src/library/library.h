/* The inside of the public interface, shared by its files. Public structs are the same as the internal ones of store.h,
 * field by field, so that the internal ones may change without breaking programs. */
#ifndef WEIR_LIBRARY_LIBRARY_H
#define WEIR_LIBRARY_LIBRARY_H

#include <pthread.h>

#include "observe/event.h"
#include "observe/metrics.h"
#include "store/store.h"
#include "weir/weir.h"

enum { IDLE_HANDLES_MAX = 8 };

/* A struct store is for one thread at a time, a struct weir for all: each call borrows a handle and gives it back. */
struct weir {
    struct event_bus events;
    struct metrics *metrics;
    struct span_exporter *exporter; /* NULL = none */
    double spans_ratio;
    weir_event_function *on_event;
    void *event_context;
    char actor[ACTOR_MAX + 1]; /* of acts */
    char *server_url;          /* the store is a server; else NULL */
    struct store *store;       /* the first one, from which further ones are opened; never borrowed */
    pthread_mutex_t lock;      /* of the members below */
    struct store *idle[IDLE_HANDLES_MAX];
    size_t idle_count;
    struct weir_node *nodes; /* open on this store: woken by changes of this process */
};

/* Wakes the nodes of this process at once, before the store signals the change. */
void library_wake_nodes(struct weir *weir);

/* A handle for the calling thread until it is given back; opened when none is idle. Errors as store_open_again(). */
WEIR_MUST_CHECK enum weir_status handle_borrow(struct weir *weir, struct store **ret_handle, struct weir_error *error);
/* The same for an act, which goes on record with the actor of `weir` and this reason (may be NULL). Also
 * WEIR_INVALID_ARGUMENT: the reason is too long. */
WEIR_MUST_CHECK enum weir_status handle_borrow_to_act(struct weir *weir, const char *reason, struct store **ret_handle,
                                                      struct weir_error *error);
/* Keeps it for the next call, or closes it when enough are idle. */
void handle_give_back(struct weir *weir, struct store *handle);

/* Writes `value` as text that the caller frees with weir_free(), and releases it. */
WEIR_MUST_CHECK enum weir_status library_give_json(json_t *value, char **ret_json, struct weir_error *error);

/* The store's filter for the public one; text is borrowed from it. Errors: WEIR_INVALID_ARGUMENT (states). */
WEIR_MUST_CHECK enum weir_status filter_of(const struct weir_filter *filter, struct execution_filter *ret_filter,
                                           struct weir_error *error);

#endif
