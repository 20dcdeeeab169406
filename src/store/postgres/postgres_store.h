/* The PostgreSQL driver: what its files share.
 *
 * A handle (struct store) has one link of its own, so a heartbeat's handle never waits behind other work. Time is the
 * server's, from the one SQL function :schema.store_time(); options->clock is not used.
 *
 * A verb:
 *     struct link *link = link_of(store);
 *     PGresult *result;
 *     enum weir_status status = link_write(link, error, &result, QUERY_..., "iut", node_id, id, name);
 *     if (status != WEIR_OK) return status;
 *     ... result_int(result, row, 0) ...
 *     PQclear(result);
 */
#ifndef WEIR_STORE_POSTGRES_POSTGRES_STORE_H
#define WEIR_STORE_POSTGRES_POSTGRES_STORE_H

#include "store/postgres/first_pass.h"
#include "store/postgres/link.h"
#include "store/postgres/postgres.h"

enum { SEEN_SIZE = 50 * 21 + 1 }; /* the most that snapshot_text() in migrations/0010 gives */

/* What a handle that claims remembers between two claims. Only hints and doubts: all of it may be forgotten. */
struct claim_memory {
    int64_t node_id;           /* whose it is */
    unsigned drops;            /* of the connection that told it */
    int64_t full_look_boot_us; /* then everything is looked at again */
    char seen[SEEN_SIZE];      /* wake-ups of what was committed in this snapshot are folded; "0": of nothing */
    struct first_pass first_pass;
    bool looks_at_all;           /* the next claim also looks at lanes below it */
    int64_t last_fence;          /* the newest claim that arrived here ... */
    char last_id[UUID_TEXT_MAX]; /* ... up to this item */
    size_t fits;                 /* of what is in doubt so many may fit into memory; 0 = not tried */
    bool in_doubt;               /* a claim may have been made that did not arrive */
    bool requests_in_doubt;      /* the same of requests that were marked as passed on */
};

struct postgres_store {
    struct store store; /* first */
    struct claim_memory claims;
    struct address *address;
    struct link link;
    bool read_only;
    int64_t goes_round_until_us; /* record.c: until then (boot time) sets leave out what others hold */
    bool lock_table_checked;     /* the columns of shedlock are safe ... */
    unsigned lock_table_drops;   /* ... on this connection (link.h) */
    bool time_is_known;          /* enqueue.c: the server's time is the boot clock and this much more */
    int64_t time_ahead_us;
    struct subscription *subscription; /* see listen.h; NULL until store_wake_fd() asked */
};

static inline struct postgres_store *postgres_of(struct store *store)
{
    return (struct postgres_store *)store;
}

/* The handle's link, with the clock of a new call started. */
static inline struct link *link_of(struct store *store)
{
    link_start(&postgres_of(store)->link);
    return &postgres_of(store)->link;
}

/* WEIR_NOT_PERMITTED when the handle was opened for reading only; every verb that writes asks first. */
enum weir_status require_writable(struct store *store, struct weir_error *error);

/* The whole id that begins with `prefix`; WEIR_EXECUTION_NOT_FOUND, or WEIR_INVALID_ARGUMENT when several do or it is no
 * id. read.c */
enum weir_status find_execution(struct link *link, const char *prefix, char *ret_id, struct weir_error *error);

/* The verbs of store.h, by their names there. schema.c: */
enum weir_status postgres_require_schema(struct store *, struct weir_error *);
enum weir_status postgres_plan(struct store *, struct arena *, const struct store_migration **, size_t *,
                               struct weir_error *);
enum weir_status postgres_migrate(struct store *, int *, struct weir_error *);
/* The others, each in the file of its kind: */
enum weir_status postgres_enqueue(struct store *, const struct enqueue_request *, size_t, struct enqueue_result *,
                                  struct weir_error *);
enum weir_status postgres_claim(struct store *, const struct claim_options *, struct arena *, struct claim_result *,
                                struct weir_error *);
enum weir_status postgres_next_work(struct store *, int64_t, const char *, struct next_work *, struct weir_error *);
enum weir_status postgres_read_definition(struct store *, int64_t, struct arena *, struct definition_text *,
                                          struct weir_error *);
enum weir_status postgres_take_requests(struct store *, int64_t, struct arena *, struct node_request **, size_t *,
                                        struct weir_error *);
enum weir_status postgres_record(struct store *, int64_t, struct record *, size_t, struct record_summary *,
                                 struct weir_error *);
enum weir_status postgres_node_start(struct store *, const struct node_options *, int64_t *, struct weir_error *);
enum weir_status postgres_node_beat(struct store *, int64_t, struct node_beat *, struct weir_error *);
enum weir_status postgres_node_stop(struct store *, int64_t, bool, struct weir_error *);
enum weir_status postgres_node_wish(struct store *, const char *, enum node_wish, struct weir_error *);
enum weir_status postgres_recover(struct store *, const struct recover_options *, struct recover_result *,
                                  struct weir_error *);
enum weir_status postgres_bulk(struct store *, enum bulk_act, const struct execution_filter *, const char *, size_t,
                               const char *, const char *, struct bulk_result *, struct weir_error *);
enum weir_status postgres_set_plan(struct store *, const struct plan_change *, struct weir_error *);
enum weir_status postgres_set_workspace(struct store *, const struct workspace_change *, struct weir_error *);
enum weir_status postgres_set_paused(struct store *, const char *, bool, struct weir_error *);
enum weir_status postgres_publish(struct store *, const char *, const char *, const char *, struct published *,
                                  struct weir_error *);
/* That the table of locks can be shared; in words what is wrong with it. */
enum weir_status postgres_check_lock_table(struct postgres_store *, struct link *, struct weir_error *);
enum weir_status postgres_lock(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status postgres_lock_extend(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status postgres_unlock(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status postgres_list(struct store *, const struct list_options *, json_t **, struct weir_error *);
enum weir_status postgres_show(struct store *, const char *, json_t **, struct weir_error *);
enum weir_status postgres_why(struct store *, const char *, json_t **, struct weir_error *);
enum weir_status postgres_status(struct store *, size_t, json_t **, struct weir_error *);
enum weir_status postgres_check(struct store *, json_t **, struct weir_error *);
/* listen.c */
int postgres_wake_fd(struct store *, const char *group);
bool postgres_wake_drain(struct store *, int64_t *);

#endif
