/* The functions of a store driver. Only the verbs in src/store/ and the drivers include this; all other code sees store.h.
 */
#ifndef WEIR_STORE_DRIVER_H
#define WEIR_STORE_DRIVER_H

#include "store/complete.h"
#include "store/definition_schedules.h"
#include "store/store.h"

/* A setting as JSON: the longest is the holder of a lock, 255 bytes, each byte escaped with 6 characters. */
enum { ACT_SETTING_MAX = 2048 };

struct named_query {
    const char *name;
    const char *sql;
};

struct named_migration {
    int version;
    const char *name;
    const char *sql;
};

/* One transaction of a deletion: at most DELETION_BATCH waiting executions. */
struct deletion_step {
    size_t failed;
    bool more; /* some wait still, and the workspace is paused: call again */
};
/* One transaction of an erasure: the next ERASURE_BATCH rows of the history. */
struct erasure_step {
    char after[UUID_TEXT_MAX]; /* in and out: the last row that was looked at; "" = none */
    size_t erased;
    bool more;
};

/* A definition to publish, as the arguments of store_publish(). `schedules`: those of its text. */
struct publication {
    const char *name;
    const char *workspace;
    const char *text;
    const char *source;
    const struct definition_schedules *schedules;
    bool only_try; /* undo all of it */
};

/* The verbs of store.h with the same contracts; arguments are already checked. Events are emitted by the callers in
 * src/store/. */
struct store_driver {
    const char *scheme;           /* "sqlite" */
    const char *other_schemes[2]; /* other names for it in URLs, or NULL */
    unsigned features;
    enum weir_status (*open)(const struct store_options *options, const char *location, struct store **ret_store,
                             struct weir_error *error);
    enum weir_status (*open_again)(const struct store *store, struct store **ret_store, struct weir_error *error);
    void (*close)(struct store *store);
    enum weir_status (*require_schema)(struct store *, struct weir_error *);
    enum weir_status (*plan)(struct store *, struct arena *, const struct store_migration **, size_t *,
                             struct weir_error *);
    enum weir_status (*migrate)(struct store *, int *, struct weir_error *);
    enum weir_status (*check)(struct store *, json_t **, struct weir_error *);
    enum weir_status (*backup)(struct store *, const char *, struct weir_error *);
    enum weir_status (*time)(struct store *, int64_t *, struct weir_error *);
    enum weir_status (*enqueue)(struct store *, const struct enqueue_request *, size_t, struct enqueue_result *,
                                struct weir_error *);
    enum weir_status (*role)(struct store *, const struct role_request *, struct role_state *, struct weir_error *);
    enum weir_status (*schedule)(struct store *, struct schedule_call *, struct arena *, struct schedule_answer *,
                                 struct weir_error *);
    enum weir_status (*publish_books)(struct store *, int64_t, int64_t, const struct lane_pass *, size_t, bool *,
                                      struct weir_error *);
    enum weir_status (*inbox)(struct store *, int64_t, struct inbox_position *, size_t, struct arena *, struct inbox *,
                              struct weir_error *);
    enum weir_status (*read_definition)(struct store *, int64_t, struct arena *, struct definition_text *,
                                        struct weir_error *);
    enum weir_status (*record)(struct store *, int64_t, struct record *, size_t, struct record_summary *,
                               struct weir_error *);
    /* NULL: the verb is made of the other ones. */
    enum weir_status (*complete)(struct store *, const struct completion *, struct weir_error *);
    enum weir_status (*node_start)(struct store *, const struct node_options *, int64_t *, struct weir_error *);
    enum weir_status (*node_target)(struct store *, int64_t, const struct engine_target *, struct weir_error *);
    enum weir_status (*node_handlers)(struct store *, int64_t, const struct node_handlers *, bool *, struct weir_error *);
    enum weir_status (*node_beat)(struct store *, int64_t, struct node_beat *, struct weir_error *);
    enum weir_status (*mark_stuck)(struct store *, const struct stuck_mark *, size_t, struct weir_error *);
    enum weir_status (*node_stop)(struct store *, int64_t, bool, struct weir_error *);
    enum weir_status (*desired_state)(struct store *, const char *, enum desired_state, struct weir_error *);
    enum weir_status (*recover)(struct store *, const struct recover_options *, struct recover_result *,
                                struct weir_error *);
    enum weir_status (*take_requests)(struct store *, int64_t, struct arena *, struct node_request **, size_t *, bool *,
                                      struct weir_error *);
    enum weir_status (*signal)(struct store *, const struct signal_request *, struct sent_signal *, struct weir_error *);
    enum weir_status (*bulk)(struct store *, enum bulk_act, const struct act_order *, const struct execution_filter *,
                             const char *, size_t, struct bulk_result *, struct weir_error *);
    enum weir_status (*set_plan)(struct store *, const struct plan_change *, struct weir_error *);
    enum weir_status (*set_workspace)(struct store *, const struct workspace_change *, struct weir_error *);
    enum weir_status (*rename_workspace)(struct store *, const char *, const char *, struct weir_error *);
    enum weir_status (*delete_workspace)(struct store *, const struct workspace_deletion *, struct deletion_step *,
                                         struct weir_error *);
    enum weir_status (*erase_workspace)(struct store *, const char *, struct erasure_step *, struct weir_error *);
    enum weir_status (*set_workflow_state)(struct store *, const char *, const char *, enum workflow_state,
                                           struct weir_error *);
    enum weir_status (*set_paused)(struct store *, const char *, bool, struct weir_error *);
    enum weir_status (*publish)(struct store *, const struct publication *, struct published *, struct weir_error *);
    enum weir_status (*lock)(struct store *, const struct lock_request *, struct weir_error *);
    enum weir_status (*lock_extend)(struct store *, const struct lock_request *, struct weir_error *);
    enum weir_status (*unlock)(struct store *, const struct lock_request *, struct weir_error *);
    enum weir_status (*list)(struct store *, const struct list_options *, json_t **, struct weir_error *);
    enum weir_status (*show)(struct store *, const char *, json_t **, struct weir_error *);
    enum weir_status (*why)(struct store *, const char *, json_t **, struct weir_error *);
    enum weir_status (*find_living)(struct store *, const char *const *, size_t, bool *, struct weir_error *);
    enum weir_status (*find_in_workspaces)(struct store *, const char *, const char *const *, size_t, bool *,
                                           struct weir_error *);
    enum weir_status (*status)(struct store *, size_t, json_t **, struct weir_error *);
    enum weir_status (*write_logs)(struct store *, const struct log_chunk *, size_t, struct weir_error *);
    enum weir_status (*list_logs)(struct store *, const char *, struct arena *, struct log_attempt **, size_t *,
                                  struct weir_error *);
    enum weir_status (*read_log)(struct store *, const char *, const char *, int, int64_t, struct arena *,
                                 struct log_chunk **, size_t *, struct weir_error *);
    enum weir_status (*archive)(struct store *, const struct archive_order *, const char *, struct archive_result *,
                                struct weir_error *);
    enum weir_status (*purge_logs)(struct store *, int64_t, size_t, int64_t *, struct weir_error *);
    enum weir_status (*write_progress)(struct store *, const struct progress_record *, size_t, struct weir_error *);
    enum weir_status (*note_act)(struct store *, const char *, const char *, const char *, struct weir_error *);
    enum weir_status (*purge_audit)(struct store *, int64_t, size_t, int64_t *, struct weir_error *);
    enum weir_status (*token_create)(struct store *, const struct token_request *, int64_t *, struct weir_error *);
    enum weir_status (*token_revoke)(struct store *, const char *, struct weir_error *);
    enum weir_status (*tokens_read)(struct store *, struct arena *, struct token_set *, struct weir_error *);
    enum weir_status (*tokens_used)(struct store *, const int64_t *, size_t, struct weir_error *);
    enum weir_status (*read_stream)(struct store *, const struct stream_position *, size_t, struct arena *,
                                    struct stream_batch *, struct weir_error *);
    enum weir_status (*sample_history)(struct store *, struct arena *, struct history_sample *, struct weir_error *);
    enum weir_status (*write_history)(struct store *, const struct history_row *, int64_t, struct weir_error *);
    enum weir_status (*read_history)(struct store *, const struct history_query *, struct arena *, struct history_rows *,
                                     struct weir_error *);
    enum weir_status (*purge_stream)(struct store *, size_t, int64_t *, struct weir_error *);
    enum weir_status (*hook_set)(struct store *, const struct hook_request *, bool *, struct weir_error *);
    enum weir_status (*hook_pause)(struct store *, const char *, bool, struct weir_error *);
    enum weir_status (*hook_delete)(struct store *, const char *, struct weir_error *);
    enum weir_status (*read_hook_events)(struct store *, struct arena *, struct hook_events *, struct weir_error *);
    enum weir_status (*settle_hook_events)(struct store *, const struct hook_outcome *, size_t, struct weir_error *);
    enum weir_status (*trim_hook_events)(struct store *, int64_t *, struct weir_error *);
    enum weir_status (*schedule_set)(struct store *, const struct schedule_request *, int64_t, bool *, struct weir_error *);
    enum weir_status (*schedule_pause)(struct store *, const char *, bool, struct weir_error *);
    enum weir_status (*schedule_delete)(struct store *, const char *, struct weir_error *);
    /* The key of its time, and the arguments for the record as JSON; NULL: it fires now, in all workspaces. */
    enum weir_status (*schedule_trigger)(struct store *, const struct schedule_trigger *, const char *, const char *,
                                         struct schedule_counts *, struct weir_error *);
    enum weir_status (*read_due_schedules)(struct store *, struct arena *, struct due_schedules *, struct weir_error *);
    enum weir_status (*advance_schedule)(struct store *, struct schedule_advance *, struct weir_error *);
    enum weir_status (*read_schedule_firings)(struct store *, struct arena *, struct schedule_firings *,
                                              struct weir_error *);
    enum weir_status (*settle_schedule_firings)(struct store *, struct schedule_outcome *, size_t, struct weir_error *);
    enum weir_status (*advance_children)(struct store *, struct children_advance *, struct weir_error *);
    int (*wake_fd)(struct store *);
    void (*wake_for)(struct store *, int64_t, bool); /* NULL: the driver does not know */
    bool (*wake_drain)(struct store *, int64_t *);
};

/* The settings that the last act of a handle changed: JSON objects as text; "" = there is or was none. */
struct act_change {
    char before[ACT_SETTING_MAX];
    char after[ACT_SETTING_MAX];
};

/* First member of every driver's own struct. */
struct store {
    const struct store_driver *driver;
    struct event_bus *events;
    const struct clock *clock;
    struct uuid_source *uuids;
    int64_t deadline_us;
    store_progress *progress; /* NULL = no listener */
    void *progress_context;
    char url[512];
    int64_t enqueue_wait_us;   /* store_limit_enqueue_wait(); 0 = none */
    int64_t lock_wait_us;      /* store_limit_lock_wait(); 0 = none */
    bool all_or_none;          /* of the call of enqueue() that is under way: a refused request undoes the set */
    char actor[ACTOR_MAX + 1]; /* store_act_as(); "" = a node: its calls are no acts */
    char reason[REASON_MAX + 1];
    struct act_change change;
};

/* --- shared by the drivers --- */

/* Reports the progress of a call to its listener. WEIR_INTERRUPTED: the listener stops the call. */
WEIR_MUST_CHECK enum weir_status store_report_progress(const struct store *store, int64_t done, int64_t total,
                                                       struct weir_error *error);
void store_report_migrated(const struct store *store, int64_t done, int64_t total);

/* The actor and the reason of the handle; NULL = none. */
const char *store_actor(const struct store *store);
const char *store_reason(const struct store *store);
/* The subject of an act on executions: the whole id when the filter names one, else its conditions. `to`: SUBJECT_MAX + 1
 * bytes. */
void audit_subject(const struct execution_filter *filter, const char *id, char *to, size_t size);
/* The name of the act that sets the state: "node pause". */
const char *desired_state_act(enum desired_state desired_state);
/* The same for a change of a workspace, and for the state of a workflow. */
const char *workspace_change_act(const struct workspace_change *change);
const char *workflow_state_act(enum workflow_state state);

/* Checks each request of a set and begins its result: store_enqueue() calls it, and a driver for requests that do not come
 * through store_enqueue(). A driver leaves a result with a status other than WEIR_OK as it is. WEIR_OUT_OF_MEMORY only. */
WEIR_MUST_CHECK enum weir_status enqueue_requests_check(const struct enqueue_request *requests, size_t count,
                                                        struct enqueue_result *results, size_t *ret_valid,
                                                        struct weir_error *error);
/* A driver calls it for each valid request, with the store's time: lists begin with the newest ids, so an id of years to
 * come would hide other executions. WEIR_INVALID_ARGUMENT is the refusal of this request alone. */
WEIR_MUST_CHECK enum weir_status enqueue_id_check(const struct enqueue_request *request, int64_t now_us,
                                                  struct weir_error *error);
/* No params and {} are the same, and nothing is kept of them. */
bool enqueue_has_no_params(const struct enqueue_request *request);
/* Whether an idempotency key begins as those of hooks or schedules, which no other request may use. */
bool enqueue_key_is_reserved(const char *key);

/* The state of an execution after RECORD_COMPLETED, RECORD_FAILED or RECORD_CANCELLED. */
enum item_state record_end_state(enum record_kind kind);

/* The columns of a definition beside its text, so that enqueues and claims need not read it. */
struct definition_facts {
    int starts_max;                          /* 0 = not said */
    char executor_group[GROUP_NAME_MAX + 1]; /* "" = not said */
    bool on_temporal;                        /* it has `temporal:`, and no steps */
    char *handlers;                          /* the handlers that its steps name, a JSON array in ascending order; owned */
    char *labels;                            /* of its executions, a JSON object of texts; owned; NULL = none */
};
/* `text` may be no definition: then it has no facts. WEIR_OUT_OF_MEMORY only. */
WEIR_MUST_CHECK enum weir_status definition_facts_read(const char *text, struct definition_facts *ret_facts,
                                                       struct weir_error *error);
void definition_facts_close(struct definition_facts *facts);

/* Sets the workspaces of a token from a JSON array of [id, name]; NULL: it has all. The names are copied into the arena. */
WEIR_MUST_CHECK enum weir_status token_fill_workspaces(struct token *token, const char *workspaces, struct arena *arena,
                                                       struct weir_error *error);

/* The drivers that this build knows, NULL-terminated; defined in assemble.c, the only file that names them. */
extern const struct store_driver *const store_drivers[];

#endif
