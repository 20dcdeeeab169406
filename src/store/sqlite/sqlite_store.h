/* The SQLite driver: shared by its files, and the functions that the library needs beyond the driver table. */
#ifndef WEIR_STORE_SQLITE_STORE_H
#define WEIR_STORE_SQLITE_STORE_H

#include "store/sqlite/news.h"
#include "store/sqlite/pending_room.h"
#include "store/sqlite/sqlite_file.h"

extern const struct store_driver sqlite_store_driver;

struct sqlite_store {
    struct store store; /* first */
    struct sqlite_file *file;
    struct connection reader; /* opened on first use */
    bool read_only;
    bool create;
    struct wake *wake;
    /* Of the scheduler: the epoch that this handle has loaded, and the last row of the news that it has read. */
    int64_t news_epoch;
    int64_t news_position;
    int64_t news_cookie;                      /* of the schema at that load */
    struct pending_room rooms[PENDING_ROOMS]; /* for the enqueues of this handle */
    struct {
        int64_t workspace_id;
        int64_t due_us;
        int64_t number;
    } parked_before; /* of the deletion of a workspace: the last WAITING item that it has looked at (deletion.c) */
    char path[];
};

static inline struct sqlite_store *sqlite_of(struct store *store)
{
    return (struct sqlite_store *)store;
}

/* For programs of our own, before anything else: SQLite keeps no memory statistics, because every allocation would take
 * their lock. It keeps the old pages of a statement in memory up to 128 KiB, where 64 KiB are its default. Above that it
 * makes and deletes a file for them. A library must not decide that for its host. Does nothing once SQLite runs.
 */
void sqlite_store_tune_process(void);

/* Enqueues inside the open transaction of the caller's own connection. A rollback leaves nothing; a commit starts the work.
 * `database` must be a connection to a migrated store with a begun transaction (WEIR_MISUSE otherwise). */
enum weir_status sqlite_store_enqueue_on(sqlite3 *database, const struct enqueue_request *requests, size_t count,
                                         struct enqueue_result *results, struct weir_error *error);

/* --- between the driver's files --- */

/* An act that the transaction records (audit.c). The texts are the verb's. */
struct act {
    const char *name;      /* "plan set"; NULL = it is none */
    const char *kind;      /* of the setting: "plan"; NULL = it changes none */
    const char *key;       /* the name of the subject */
    const char *owner;     /* the workspace of a workflow, or NULL */
    int64_t affected;      /* executions */
    const char *arguments; /* JSON, in the place of a setting; NULL = none */
    bool needs_change;     /* it is not recorded when the setting is the same afterwards */
};

/* A write transaction of the handle: the writer, the time, the news that it makes. */
struct write {
    struct sqlite_store *store;
    struct connection *connection;
    int64_t now_us;
    int64_t asked_us; /* of a set of records: the beginning of the call, before it waited for the writer; else now_us */
    struct news news;
    struct act act;
    size_t repeated; /* record: records that were there already and changed nothing */
};
enum weir_status write_open(struct store *store, struct write *write, struct weir_error *error);
/* The same for a call of at most WRITE_SHORT_MOST items: a long set of records commits its first part before it goes on. */
enum { WRITE_SHORT_MOST = 16 };
enum weir_status write_open_short(struct store *store, struct write *write, struct weir_error *error);
/* The same for a set of records: other calls that wait, and an expected round of the scheduler, go first. */
enum weir_status write_open_patiently(struct store *store, struct write *write, struct weir_error *error);
/* Writes the news and the record of the act, and commits; on a failure everything is undone. */
enum weir_status write_finish(struct write *write, struct weir_error *error);
void write_undo(struct write *write);
/* The end of a verb: write_finish() when all went well, else write_undo() and the status. */
enum weir_status write_end(struct write *write, enum weir_status status, struct weir_error *error);
/* The handle's own reading connection, with its deadline set. */
enum weir_status store_reader(struct store *store, struct connection **ret_connection, struct weir_error *error);
/* Begins a read transaction on it. It sees the archive, too. */
enum weir_status store_begin_read(struct store *store, struct connection **ret_connection, struct weir_error *error);
/* One state of the store for all that is read until snapshot_end(): foreign changes are seen before or after it, never
 * half.
 */
enum weir_status snapshot_begin(struct store *store, struct connection **ret_connection, struct weir_error *error);
void snapshot_end(struct connection *connection);

/* Puts the transaction on record as an act, if the handle has an actor: reads the setting before its change. */
enum weir_status act_begin(struct write *write, const char *name, const char *kind, const char *key, const char *owner,
                           struct weir_error *error);
/* Inserts the row of the act that act_begin() has begun, with the setting after its change. Called by write_finish(). */
enum weir_status act_record(struct write *write, struct weir_error *error);
/* The row alone, with the settings in store->change. */
enum weir_status act_insert(struct connection *connection, const struct store *store, int64_t now_us, const char *act,
                            const char *subject, int64_t affected, struct weir_error *error);

/* Adds an event row (workflow_execution_events). */
enum weir_status event_history_add(struct connection *connection, const char *id, int64_t at_us, const char *event,
                                   int64_t node_id, int64_t fence, const char *actor, const char *reason,
                                   const char *detail, struct weir_error *error);
enum weir_status fence_take_next(struct connection *connection, int64_t *ret_fence, struct weir_error *error);
/* WEIR_STALE_FENCE when the scheduler's epoch is another, or the schema's cookie: then a backup was loaded into the file,
 * or the schema changed. A cookie of 0 gets the present one. */
enum weir_status role_check(struct connection *connection, int64_t epoch, int64_t *cookie, struct weir_error *error);
enum weir_status role_read(struct connection *connection, int64_t now_us, struct role_state *ret_state,
                           struct weir_error *error);
/* Adds "why", the reason of the last change of the role, and, when a live node fails to schedule, "failing_since" and
 * "error", else null. *ret_lock_awaited_us: since when the scheduler waits for the lock of dispatch.exclusive; 0 when it
 * does not wait. */
enum weir_status role_add_reason(struct connection *connection, const struct role_state *role, json_t *scheduler,
                                 int64_t *ret_lock_awaited_us, struct weir_error *error);

/* Refuses an unknown name, ends `statement` (may be NULL) and suggests the nearest of its names. */
enum weir_status write_refuse_names(struct write *write, sqlite3_stmt *statement, enum weir_status refusal,
                                    const char *what, const char *name, const char *how, struct weir_error *error);
enum weir_status write_refuse_name(struct write *write, enum sqlite_query names, enum weir_status refusal, const char *what,
                                   const char *name, const char *how, struct weir_error *error);
/* Replaces the hint when a workspace had the name before it was renamed. Best effort. */
void write_hint_new_name(struct connection *connection, const char *name, struct weir_error *error);
enum purge_outcome {
    PURGE_DONE,
    PURGE_NOT_ENDED,   /* no ended execution has the id */
    PURGE_ARCHIVE_AWAY /* nothing was changed: its content is in the archive, which is missing */
};
/* Deletes an ended execution with all rows that belong to it. */
enum weir_status purge_execution(struct connection *connection, const char *id, enum purge_outcome *ret_outcome,
                                 struct weir_error *error);

/* The verbs of store.h, by their names there. */
enum weir_status sqlite_require_schema(struct store *, struct weir_error *);
enum weir_status sqlite_plan(struct store *, struct arena *, const struct store_migration **, size_t *,
                             struct weir_error *);
enum weir_status sqlite_migrate(struct store *, int *, struct weir_error *);
enum weir_status sqlite_enqueue(struct store *, const struct enqueue_request *, size_t, struct enqueue_result *,
                                struct weir_error *);
enum weir_status sqlite_role(struct store *, const struct role_request *, struct role_state *, struct weir_error *);
enum weir_status sqlite_schedule(struct store *, struct schedule_call *, struct arena *, struct schedule_answer *,
                                 struct weir_error *);
enum weir_status sqlite_publish_books(struct store *, int64_t, int64_t, const struct lane_pass *, size_t, bool *,
                                      struct weir_error *);
enum weir_status sqlite_inbox(struct store *, int64_t, struct inbox_position *, size_t, struct arena *, struct inbox *,
                              struct weir_error *);
enum weir_status sqlite_read_definition(struct store *, int64_t, struct arena *, struct definition_text *,
                                        struct weir_error *);
enum weir_status sqlite_take_requests(struct store *, int64_t, struct arena *, struct node_request **, size_t *, bool *,
                                      struct weir_error *);
enum weir_status sqlite_signal(struct store *, const struct signal_request *, struct sent_signal *, struct weir_error *);
enum weir_status sqlite_record(struct store *, int64_t, struct record *, size_t, struct record_summary *,
                               struct weir_error *);
enum weir_status sqlite_node_start(struct store *, const struct node_options *, int64_t *, struct weir_error *);
enum weir_status sqlite_node_handlers(struct store *, int64_t, const struct node_handlers *, bool *, struct weir_error *);
enum weir_status sqlite_node_target(struct store *, int64_t, const struct engine_target *, struct weir_error *);
enum weir_status sqlite_node_beat(struct store *, int64_t, struct node_beat *, struct weir_error *);
enum weir_status sqlite_mark_stuck(struct store *, const struct stuck_mark *, size_t, struct weir_error *);
enum weir_status sqlite_node_stop(struct store *, int64_t, bool, struct weir_error *);
enum weir_status sqlite_set_desired_state(struct store *, const char *, enum desired_state, struct weir_error *);
enum weir_status sqlite_recover(struct store *, const struct recover_options *, struct recover_result *,
                                struct weir_error *);
enum weir_status sqlite_bulk(struct store *, enum bulk_act, const struct act_order *, const struct execution_filter *,
                             const char *, size_t, struct bulk_result *, struct weir_error *);
enum weir_status sqlite_set_plan(struct store *, const struct plan_change *, struct weir_error *);
enum weir_status sqlite_set_workspace(struct store *, const struct workspace_change *, struct weir_error *);
enum weir_status sqlite_rename_workspace(struct store *, const char *, const char *, struct weir_error *);
enum weir_status sqlite_delete_workspace(struct store *, const struct workspace_deletion *, struct deletion_step *,
                                         struct weir_error *);
enum weir_status sqlite_erase_workspace(struct store *, const char *, struct erasure_step *, struct weir_error *);
enum weir_status sqlite_set_workflow_state(struct store *, const char *, const char *, enum workflow_state,
                                           struct weir_error *);
enum weir_status sqlite_set_paused(struct store *, const char *, bool, struct weir_error *);
enum weir_status sqlite_publish(struct store *, const struct publication *, struct published *, struct weir_error *);
enum weir_status sqlite_lock(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status sqlite_lock_extend(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status sqlite_unlock(struct store *, const struct lock_request *, struct weir_error *);
enum weir_status sqlite_list(struct store *, const struct list_options *, json_t **, struct weir_error *);
enum weir_status sqlite_show(struct store *, const char *, json_t **, struct weir_error *);
enum weir_status sqlite_why(struct store *, const char *, json_t **, struct weir_error *);
enum weir_status sqlite_find_living(struct store *, const char *const *, size_t, bool *, struct weir_error *);
enum weir_status sqlite_find_in_workspaces(struct store *, const char *, const char *const *, size_t, bool *,
                                           struct weir_error *);
enum weir_status sqlite_status(struct store *, size_t, json_t **, struct weir_error *);
enum weir_status sqlite_write_logs(struct store *, const struct log_chunk *, size_t, struct weir_error *);
enum weir_status sqlite_list_logs(struct store *, const char *, struct arena *, struct log_attempt **, size_t *,
                                  struct weir_error *);
enum weir_status sqlite_read_log(struct store *, const char *, const char *, int, int64_t, struct arena *,
                                 struct log_chunk **, size_t *, struct weir_error *);
enum weir_status sqlite_purge_logs(struct store *, int64_t, size_t, int64_t *, struct weir_error *);
enum weir_status sqlite_write_progress(struct store *, const struct progress_record *, size_t, struct weir_error *);
enum weir_status sqlite_note_act(struct store *, const char *, const char *, const char *, struct weir_error *);
enum weir_status sqlite_archive(struct store *, const struct archive_order *, const char *, struct archive_result *,
                                struct weir_error *);
enum weir_status sqlite_purge_audit(struct store *, int64_t, size_t, int64_t *, struct weir_error *);
enum weir_status sqlite_token_create(struct store *, const struct token_request *, int64_t *, struct weir_error *);
enum weir_status sqlite_token_revoke(struct store *, const char *, struct weir_error *);
enum weir_status sqlite_tokens_read(struct store *, struct arena *, struct token_set *, struct weir_error *);
enum weir_status sqlite_tokens_used(struct store *, const int64_t *, size_t, struct weir_error *);
enum weir_status sqlite_read_stream(struct store *, const struct stream_position *, size_t, struct arena *,
                                    struct stream_batch *, struct weir_error *);
enum weir_status sqlite_purge_stream(struct store *, size_t, int64_t *, struct weir_error *);
enum weir_status sqlite_sample_history(struct store *, struct arena *, struct history_sample *, struct weir_error *);
enum weir_status sqlite_write_history(struct store *, const struct history_row *, int64_t, struct weir_error *);
enum weir_status sqlite_read_history(struct store *, const struct history_query *, struct arena *, struct history_rows *,
                                     struct weir_error *);
enum weir_status sqlite_hook_set(struct store *, const struct hook_request *, bool *, struct weir_error *);
enum weir_status sqlite_hook_pause(struct store *, const char *, bool, struct weir_error *);
enum weir_status sqlite_hook_delete(struct store *, const char *, struct weir_error *);
enum weir_status sqlite_read_hook_events(struct store *, struct arena *, struct hook_events *, struct weir_error *);
enum weir_status sqlite_settle_hook_events(struct store *, const struct hook_outcome *, size_t, struct weir_error *);
enum weir_status sqlite_trim_hook_events(struct store *, int64_t *, struct weir_error *);
enum weir_status sqlite_schedule_set(struct store *, const struct schedule_request *, int64_t, bool *, struct weir_error *);
enum weir_status sqlite_schedule_pause(struct store *, const char *, bool, struct weir_error *);
enum weir_status sqlite_schedule_delete(struct store *, const char *, struct weir_error *);
enum weir_status sqlite_schedule_trigger(struct store *, const struct schedule_trigger *, const char *, const char *,
                                         struct schedule_counts *, struct weir_error *);
enum weir_status sqlite_read_due_schedules(struct store *, struct arena *, struct due_schedules *, struct weir_error *);
enum weir_status sqlite_advance_schedule(struct store *, struct schedule_advance *, struct weir_error *);
enum weir_status sqlite_read_schedule_firings(struct store *, struct arena *, struct schedule_firings *,
                                              struct weir_error *);
enum weir_status sqlite_settle_schedule_firings(struct store *, struct schedule_outcome *, size_t, struct weir_error *);
enum weir_status sqlite_advance_children(struct store *, struct children_advance *, struct weir_error *);
enum weir_status sqlite_check(struct store *, json_t **, struct weir_error *);
int sqlite_wake_fd(struct store *);
bool sqlite_wake_drain(struct store *, int64_t *);
void sqlite_wake_close(struct sqlite_store *store);

/* One row moves to the history (its status must be CLAIMED, DISPATCHED or PENDING), and the news gets it. The caller has
 * checked fence and state. */
struct ending {
    const char *id;
    enum item_state state;
    int64_t lane_id;
    int64_t workspace_id;
    int64_t rank;
    int64_t fence;
    int phase;
    bool has_run; /* under an earlier claim */
    bool dispatched_first;
    const char *error_code;
    const char *error;
};
enum weir_status item_end(struct write *write, const struct ending *ending, struct weir_error *error);
/* After an item has lost its node: ends it as CANCELLED if that was requested and nothing can run of it any more. */
enum weir_status item_end_if_cancelled(struct write *write, const char *id, struct weir_error *error);

/* --- recovery (recover.c) --- */

/* Hands an item over that its node holds under this fence, because the keeper of its steps was killed. It counts as the
 * death of its node; is_alone: the keeper had steps of no other item. *poisoned grows by one when it ends as poison. */
enum weir_status recover_from_keeper(struct write *write, const char *id, int64_t fence, bool is_alone, size_t *poisoned,
                                     struct weir_error *error);
/* Gives back the items of a node that stops, at most RECOVER_BATCH; *ret_count: their number. None counts as a death. */
enum weir_status recover_give_back_all(struct write *write, int64_t node_id, size_t *ret_count, struct weir_error *error);

#endif
