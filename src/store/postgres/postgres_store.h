/* The PostgreSQL driver: shared by its files.
 *
 * A handle (struct store) has one link of its own, so a heartbeat's handle never waits behind other work. Time is the
 * server's, from the one SQL function :schema.store_time(); options->clock only measures how long the role was silent.
 *
 * A verb has this form:
 *
 *     struct link *link = link_of(store);
 *     PGresult *result;
 *     enum weir_status status = link_write(link, error, &result, QUERY_..., "iut", node_id, id, name);
 *     if (status != WEIR_OK) return status;
 *     ... result_int(result, row, 0) ...
 *     PQclear(result);
 */
#ifndef WEIR_STORE_POSTGRES_POSTGRES_STORE_H
#define WEIR_STORE_POSTGRES_POSTGRES_STORE_H

#include "store/postgres/claimed.h"
#include "store/postgres/link/link.h"
#include "store/postgres/postgres.h"

struct news_entry {
    char xid[24];
    int64_t seq;
};

/* The positions up to which a handle that schedules has read the news of its epoch, and has folded them into the books.
 * Texts are empty without a position. A server may have any number of open transactions, so the length of a snapshot is not
 * limited. */
struct news_position {
    int64_t epoch;
    unsigned drops;       /* of the connection that it was read on (link.h) */
    struct text timeline; /* of the server */
    struct text seen;     /* all news that this snapshot contains was read */
    struct text reading;  /* the next round goes on to this one, behind ... */
    struct news_entry read;
    struct text folded;  /* all news that this snapshot contains is in the books */
    struct text folding; /* the next fold goes on to this one, behind ... */
    struct news_entry fold;
};

/* The role of the scheduler as this handle has seen it. Without a renewal for its lease the role is free, by the boot clock
 * of this machine: the clock of the server may be set. role.c */
struct role_watch {
    int64_t epoch;
    int64_t renewals;
    int64_t lease_us;
    int64_t since_us; /* boot time of the first answer with these numbers */
    char server[SERVER_IDENTITY_MAX];
    int64_t server_since_us; /* boot time of the first answer of this server */
};

struct postgres_store {
    struct store store; /* first */
    struct address *address;
    struct link link;
    bool read_only;
    struct news_position news;
    struct role_watch role;
    struct item_names names;
    size_t inbox_fits;              /* the items that may fit into the memory of the caller of the inbox; 0 = all */
    bool requests_in_doubt;         /* requests may be marked as passed on without having arrived here */
    int64_t skips_blocked_until_us; /* record.c: until then (boot time) sets leave out blocked records at once */
    bool lock_table_checked;        /* the columns of shedlock are safe ... */
    unsigned lock_table_drops;      /* ... on this connection (link.h) */
    bool time_is_known;             /* enqueue.c: the time of the server is the boot clock plus time_ahead_us */
    int64_t time_ahead_us;
    struct subscription *subscription; /* see listen.h; NULL until store_wake_fd() was called */
    int64_t wake_node_id;              /* store_wake_for(); 0 = not called */
    bool wake_schedules;
};

static inline struct postgres_store *postgres_of(struct store *store)
{
    return (struct postgres_store *)store;
}

/* The handle's link, with the clock of a new call started. */
static inline struct link *link_of(struct store *store)
{
    postgres_of(store)->link.lock_wait_us = store->lock_wait_us;
    link_start(&postgres_of(store)->link);
    return &postgres_of(store)->link;
}

/* Forgets the position in the news, so that the next round must be a load. Takes a zeroed struct. schedule.c */
void news_position_forget(struct news_position *position);

/* WEIR_NOT_PERMITTED when the handle was opened for reading only; every verb that writes calls this first. */
enum weir_status postgres_require_writable(struct store *store, struct weir_error *error);

/* Finds the whole id that begins with `prefix`. WEIR_EXECUTION_NOT_FOUND: none does. WEIR_INVALID_ARGUMENT: several do, or
 * the prefix is not the beginning of an id. read.c */
enum weir_status postgres_find_execution(struct link *link, const char *prefix, char *ret_id, struct weir_error *error);

/* An answer shows the role with so many renewals: it is free, too, once it was silent for its lease. role.c */
void role_watch_note(struct postgres_store *self, struct role_state *state, int64_t renewals, int64_t lease_us);

/* The verbs of store.h, by their names there. schema.c: */
enum weir_status postgres_require_schema(struct store *, struct weir_error *);
enum weir_status postgres_plan(struct store *, struct arena *, const struct store_migration **, size_t *,
                               struct weir_error *);
enum weir_status postgres_migrate(struct store *, int *, struct weir_error *);
/* The remaining ones, each in the file of its kind: */
enum weir_status postgres_enqueue(struct store *, const struct enqueue_request *, size_t, struct enqueue_result *,
                                  struct weir_error *);
enum weir_status postgres_role(struct store *, const struct role_request *, struct role_state *, struct weir_error *);
enum weir_status postgres_schedule(struct store *, struct schedule_call *, struct arena *, struct schedule_answer *,
                                   struct weir_error *);
enum weir_status postgres_publish_books(struct store *, int64_t, int64_t, const struct lane_pass *, size_t, bool *,
                                        struct weir_error *);
enum weir_status postgres_inbox(struct store *, int64_t, struct inbox_position *, size_t, struct arena *, struct inbox *,
                                struct weir_error *);
enum weir_status postgres_read_definition(struct store *, int64_t, struct arena *, struct definition_text *,
                                          struct weir_error *);
/* The row of send_signal(); `sent->id` is set. A refusal is the status. */
enum weir_status postgres_read_sent(const PGresult *result, int row, const struct signal_request *request,
                                    struct sent_signal *sent, struct weir_error *error);
enum weir_status postgres_signal(struct store *, const struct signal_request *, struct sent_signal *, struct weir_error *);
enum weir_status postgres_take_requests(struct store *, int64_t, struct arena *, struct node_request **, size_t *, bool *,
                                        struct weir_error *);
enum weir_status postgres_record(struct store *, int64_t, struct record *, size_t, struct record_summary *,
                                 struct weir_error *);
enum weir_status postgres_node_start(struct store *, const struct node_options *, int64_t *, struct weir_error *);
enum weir_status postgres_node_handlers(struct store *, int64_t, const struct node_handlers *, bool *, struct weir_error *);
enum weir_status postgres_node_target(struct store *, int64_t, const struct engine_target *, struct weir_error *);
enum weir_status postgres_node_beat(struct store *, int64_t, struct node_beat *, struct weir_error *);
enum weir_status postgres_mark_stuck(struct store *, const struct stuck_mark *, size_t, struct weir_error *);
enum weir_status postgres_node_stop(struct store *, int64_t, bool, struct weir_error *);
enum weir_status postgres_set_desired_state(struct store *, const char *, enum desired_state, struct weir_error *);
enum weir_status postgres_recover(struct store *, const struct recover_options *, struct recover_result *,
                                  struct weir_error *);
enum weir_status postgres_bulk(struct store *, enum bulk_act, const struct act_order *, const struct execution_filter *,
                               const char *, size_t, struct bulk_result *, struct weir_error *);
enum weir_status postgres_set_plan(struct store *, const struct plan_change *, struct weir_error *);
enum weir_status postgres_set_workspace(struct store *, const struct workspace_change *, struct weir_error *);
enum weir_status postgres_rename_workspace(struct store *, const char *, const char *, struct weir_error *);
enum weir_status postgres_delete_workspace(struct store *, const struct workspace_deletion *, struct deletion_step *,
                                           struct weir_error *);
enum weir_status postgres_erase_workspace(struct store *, const char *, struct erasure_step *, struct weir_error *);
enum weir_status postgres_set_workflow_state(struct store *, const char *, const char *, enum workflow_state,
                                             struct weir_error *);
enum weir_status postgres_set_paused(struct store *, const char *, bool, struct weir_error *);
enum weir_status postgres_publish(struct store *, const struct publication *, struct published *, struct weir_error *);
/* Checks that the table of locks can be shared safely. WEIR_SCHEMA_MISSING: the message names the fault. */
enum weir_status postgres_check_lock_table(struct postgres_store *, struct link *, struct weir_error *);
enum weir_status postgres_lock(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status postgres_lock_extend(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status postgres_unlock(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status postgres_list(struct store *, const struct list_options *, json_t **, struct weir_error *);
enum weir_status postgres_show(struct store *, const char *, json_t **, struct weir_error *);
enum weir_status postgres_why(struct store *, const char *, json_t **, struct weir_error *);
enum weir_status postgres_find_living(struct store *, const char *const *, size_t, bool *, struct weir_error *);
enum weir_status postgres_find_in_workspaces(struct store *, const char *, const char *const *, size_t, bool *,
                                             struct weir_error *);
enum weir_status postgres_status(struct store *, size_t, json_t **, struct weir_error *);
enum weir_status postgres_write_logs(struct store *, const struct log_chunk *, size_t, struct weir_error *);
enum weir_status postgres_list_logs(struct store *, const char *, struct arena *, struct log_attempt **, size_t *,
                                    struct weir_error *);
enum weir_status postgres_read_log(struct store *, const char *, const char *, int, int64_t, struct arena *,
                                   struct log_chunk **, size_t *, struct weir_error *);
enum weir_status postgres_purge_logs(struct store *, int64_t, size_t, int64_t *, struct weir_error *);
enum weir_status postgres_write_progress(struct store *, const struct progress_record *, size_t, struct weir_error *);
enum weir_status postgres_note_act(struct store *, const char *, const char *, const char *, struct weir_error *);
enum weir_status postgres_archive(struct store *, const struct archive_order *, const char *, struct archive_result *,
                                  struct weir_error *);
enum weir_status postgres_purge_audit(struct store *, int64_t, size_t, int64_t *, struct weir_error *);
enum weir_status postgres_token_create(struct store *, const struct token_request *, int64_t *, struct weir_error *);
enum weir_status postgres_token_revoke(struct store *, const char *, struct weir_error *);
enum weir_status postgres_tokens_read(struct store *, struct arena *, struct token_set *, struct weir_error *);
enum weir_status postgres_tokens_used(struct store *, const int64_t *, size_t, struct weir_error *);
enum weir_status postgres_read_stream(struct store *, const struct stream_position *, size_t, struct arena *,
                                      struct stream_batch *, struct weir_error *);
enum weir_status postgres_purge_stream(struct store *, size_t, int64_t *, struct weir_error *);
enum weir_status postgres_sample_history(struct store *, struct arena *, struct history_sample *, struct weir_error *);
enum weir_status postgres_write_history(struct store *, const struct history_row *, int64_t, struct weir_error *);
enum weir_status postgres_read_history(struct store *, const struct history_query *, struct arena *, struct history_rows *,
                                       struct weir_error *);
enum weir_status postgres_hook_set(struct store *, const struct hook_request *, bool *, struct weir_error *);
enum weir_status postgres_hook_pause(struct store *, const char *, bool, struct weir_error *);
enum weir_status postgres_hook_delete(struct store *, const char *, struct weir_error *);
enum weir_status postgres_read_hook_events(struct store *, struct arena *, struct hook_events *, struct weir_error *);
enum weir_status postgres_settle_hook_events(struct store *, const struct hook_outcome *, size_t, struct weir_error *);
enum weir_status postgres_trim_hook_events(struct store *, int64_t *, struct weir_error *);
enum weir_status postgres_schedule_set(struct store *, const struct schedule_request *, int64_t, bool *,
                                       struct weir_error *);
enum weir_status postgres_schedule_pause(struct store *, const char *, bool, struct weir_error *);
enum weir_status postgres_schedule_delete(struct store *, const char *, struct weir_error *);
enum weir_status postgres_schedule_trigger(struct store *, const struct schedule_trigger *, const char *, const char *,
                                           struct schedule_counts *, struct weir_error *);
enum weir_status postgres_read_due_schedules(struct store *, struct arena *, struct due_schedules *, struct weir_error *);
enum weir_status postgres_advance_schedule(struct store *, struct schedule_advance *, struct weir_error *);
enum weir_status postgres_read_schedule_firings(struct store *, struct arena *, struct schedule_firings *,
                                                struct weir_error *);
enum weir_status postgres_advance_children(struct store *, struct children_advance *, struct weir_error *);
enum weir_status postgres_settle_schedule_firings(struct store *, struct schedule_outcome *, size_t, struct weir_error *);
enum weir_status postgres_check(struct store *, json_t **, struct weir_error *);

#endif
