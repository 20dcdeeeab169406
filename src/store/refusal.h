/* Refusals that both drivers give. Each text and its hint stands here once, so that a user reads the same sentence on every
 * store. Each function fills `error` (may be NULL) and returns its status. */
#ifndef WEIR_STORE_REFUSAL_H
#define WEIR_STORE_REFUSAL_H

#include "store/store.h"

/* The reasons for which a bulk act leaves an execution as it is. */
#define REFUSAL_CANCEL_ENDED "it has ended and cannot be cancelled"
#define REFUSAL_RELEASE_ENDED "it has ended, so nothing can be released"
#define REFUSAL_RELEASE_NOT_DELAYED "only a PENDING one that waits for its run_at or a backoff can be released"
#define REFUSAL_WAKE_ENDED "it has ended, so nothing of it waits"
#define REFUSAL_WAKE_NOTHING "none of its steps sleeps or waits for its next attempt"
#define REFUSAL_WAKE_OTHER "none of its steps has a wait of this kind"
#define REFUSAL_WAKE_SIGNAL                                                                                                \
    "its steps wait for signals, reports, approvals, children or a person, and a wake does not bring them; `weir update "  \
    "ID --state STATE` moves a manual state on"
#define REFUSAL_WAKE_NO_TIMEOUT "its steps wait without a timeout, and a wake does not send what they wait for"
#define REFUSAL_WAKE_TWICE "it was woken already"
#define REFUSAL_WAKE_TEMPORAL                                                                                              \
    "its workflow is one of Temporal, which keeps its timers; `weir signal` and `weir temporal update` reach it"
#define REFUSAL_RETRY_LIVE "it has not ended"
#define REFUSAL_RETRY_COMPLETED "only a FAILED or CANCELLED one can be retried"
#define REFUSAL_RETRY_NO_WORKSPACE "its workspace is deleted, so it cannot be retried"
#define REFUSAL_RETRY_DISABLED "its workflow is disabled or deleted, so it cannot be retried"
#define REFUSAL_RETRY_NO_STEP "its workflow has no such step to begin from; one on Temporal has no steps"
#define REFUSAL_RETRY_ARCHIVE_LOST "its params are in the archive, which is missing; `weir doctor` has its path"
#define REFUSAL_DISMISS_NOT_FAILED "only a FAILED one can be dismissed"
#define REFUSAL_PURGE_LIVE "only ended executions can be purged"
#define REFUSAL_PURGE_ARCHIVE_AWAY                                                                                         \
    "its content is in the archive, which is missing; put the file back (`weir doctor` has its path), or make an empty "   \
    "file there if it is lost"
#define REFUSAL_MIGRATE_ENDED "it has ended, and its history keeps its version"
#define REFUSAL_MIGRATE_HELD "a node holds it; migrate it while it is PENDING or WAITING, or cancel and retry it"
#define REFUSAL_MIGRATE_TEMPORAL                                                                                           \
    "workflows of Temporal cannot be migrated; their workers decide with which code an execution goes on"

/* WEIR_ILLEGAL_STATE: an execution of the deleted workspace has its content in an archive that is missing. */
enum weir_status refusal_erasure_without_archive(const char *workspace, const char *id, struct weir_error *error);
/* WEIR_NOT_PERMITTED: the handle is for reading only. */
enum weir_status refusal_read_only(const char *url, struct weir_error *error);

/* WEIR_SCHEMA_MISSING: `url` has no tables. */
enum weir_status refusal_schema_missing(const char *url, struct weir_error *error);
/* WEIR_SCHEMA_OLDER: the store has the schema `version`, this program needs `needed`. */
enum weir_status refusal_schema_older(const char *url, int version, int needed, struct weir_error *error);
/* WEIR_SCHEMA_NEWER: this program knows schemas up to `known`. */
enum weir_status refusal_schema_newer(const char *url, int version, int known, struct weir_error *error);

/* `refusal`, a "not found" status: there is no `kind` "name". The hint is the nearest of `names`, or `how` when none is
 * near. */
enum weir_status refusal_unknown_name(enum weir_status refusal, const char *kind, const char *name,
                                      const char *const *names, size_t count, const char *how, struct weir_error *error);
/* Replaces the hint by the nearest of `names`, if one is near to `wanted`. */
void refusal_suggest_name(const char *wanted, const char *const *names, size_t count, struct weir_error *error);
/* WEIR_PLAN_NOT_FOUND: a plan that does not exist was to be changed without a limit. */
enum weir_status refusal_plan_without_limit(const char *name, struct weir_error *error);
/* WEIR_WORKFLOW_NOT_FOUND: a definition was deleted. */
enum weir_status refusal_definition_missing(int64_t definition_id, struct weir_error *error);

/* The hints of an unknown workspace and of an unknown workflow. */
#define WORKSPACE_HOW "`weir workspace list` shows them; `weir workspace set` makes one"
#define WORKFLOW_HOW "`weir workflow list` shows them, with their owners"
/* WEIR_ILLEGAL_STATE: executions of the workspace wait or run. */
enum weir_status refusal_workspace_lives(const char *name, int64_t waiting, int64_t running, struct weir_error *error);
/* WEIR_CONFLICT: another workspace has the name. */
enum weir_status refusal_workspace_name_taken(const char *name, struct weir_error *error);
/* WEIR_ILLEGAL_STATE: `running` executions on Temporal may have the name of the workspace in their workflow ids. */
enum weir_status refusal_workspace_name_used(const char *name, int64_t running, struct weir_error *error);
/* Replaces the hint for a workspace that has another name since a rename; NULL = it was not renamed. */
void refusal_hint_new_name(const char *new_name, struct weir_error *error);
/* WEIR_STORE_BUSY: other transactions hold the waiting executions of the workspace. */
enum weir_status refusal_workspace_locked(const char *name, struct weir_error *error);
/* WEIR_ILLEGAL_STATE: executions of the workflow have not ended. `workspace`: its owner; NULL = it is of all workspaces. */
enum weir_status refusal_workflow_lives(const char *name, const char *workspace, int64_t living, struct weir_error *error);
/* WEIR_QUEUE_FULL: the workspace has `most` pending executions. */
enum weir_status refusal_queue_full(const char *workspace, int64_t most, struct weir_error *error);
/* WEIR_ILLEGAL_STATE: for the duty of schedules alone. */
enum weir_status refusal_firing_removed(struct weir_error *error);
/* WEIR_WORKFLOW_DISABLED; `workspace` as above. */
enum weir_status refusal_workflow_disabled(const char *name, const char *workspace, struct weir_error *error);

/* WEIR_CONFLICT: a live token has the name. */
enum weir_status refusal_token_exists(const char *name, struct weir_error *error);
/* WEIR_ILLEGAL_STATE: the store has TOKENS_MOST tokens. */
enum weir_status refusal_tokens_full(struct weir_error *error);
/* WEIR_INVALID_ARGUMENT: a new token would have expired already. */
enum weir_status refusal_token_expired(struct weir_error *error);
/* WEIR_ILLEGAL_STATE: the store has HOOKS_MOST hooks. */
enum weir_status refusal_hooks_full(struct weir_error *error);
#define PLAN_HOW "`weir plan list` shows them; `weir plan set` makes one"
#define HOOK_HOW "`weir hook list` shows them"
/* WEIR_ILLEGAL_STATE: the store has SCHEDULES_MOST schedules. */
enum weir_status refusal_schedules_full(struct weir_error *error);
enum weir_status refusal_schedule_expands(const char *schedule, struct weir_error *error);
/* WEIR_ILLEGAL_STATE: a user sets or deletes a schedule of the definition "NAME" or "WORKSPACE/NAME". */
enum weir_status refusal_schedule_of_definition(const char *schedule, const char *definition, struct weir_error *error);
/* WEIR_CONFLICT: a definition sets a schedule that another one has; "" = a user has set it. */
enum weir_status refusal_schedule_name_taken(const char *schedule, const char *definition, struct weir_error *error);
enum weir_status refusal_workspace_of_schedule(const char *schedule, const char *workspace, struct weir_error *error);
#define SCHEDULE_HOW "`weir schedule list` shows them"
#define TOKEN_HOW "`weir token list` shows them"

/* WEIR_ILLEGAL_STATE: a definition would need a set of handlers for which lane ids have no number left. */
enum weir_status refusal_handler_sets_full(struct weir_error *error);

/* WEIR_STALE_FENCE: the row of the node is dead or stopped. */
enum weir_status refusal_node_ended(int64_t node_id, struct weir_error *error);
/* WEIR_STALE_FENCE: the node has lost its lease. */
enum weir_status refusal_lease_lost(int64_t node_id, struct weir_error *error);
/* WEIR_NOT_FOUND: no live node has the name. `names`: the live ones, with commas, "" for none; is_cut: the list is longer.
 */
enum weir_status refusal_no_live_node(const char *name, const char *names, bool is_cut, struct weir_error *error);

/* WEIR_ILLEGAL_STATE: `state` is that of the ended execution. WEIR_EXECUTION_NOT_FOUND: it is "gone". */
enum weir_status refusal_signal_ended(const char *id, const char *state, struct weir_error *error);
/* WEIR_CONFLICT: the service has the signals of a workflow on Temporal. */
enum weir_status refusal_signal_of_temporal(const char *id, struct weir_error *error);
/* WEIR_INVALID_ARGUMENT: no step of its definition waits for the name; `names` are those that it has, "" = none. */
enum weir_status refusal_signal_unknown(const char *id, const char *name, const char *names, struct weir_error *error);
/* WEIR_INVALID_ARGUMENT: the data has more than SIGNAL_DATA_BYTES_MAX bytes. */
enum weir_status refusal_signal_large(size_t bytes, struct weir_error *error);
/* Why an update of states was refused: `outcome` of the refusal, or the state of an ended execution. */
enum weir_status refusal_of_update(const char *id, const struct update_refusal *refusal, struct weir_error *error);
/* WEIR_IDEMPOTENCY_KEY_REUSED: the key is that of the signal `seq`, which has other data. */
enum weir_status refusal_signal_key_reused(const char *id, const char *key, int64_t seq, struct weir_error *error);
/* WEIR_ILLEGAL_STATE: `count` signals of the name with `bytes` of data are not consumed. */
enum weir_status refusal_signals_full(const char *id, const char *name, int64_t count, int64_t bytes,
                                      struct weir_error *error);

/* WEIR_NOT_FOUND: the same for a wrong token, for an attempt that is over and for an execution that is not there. */
enum weir_status refusal_callback_unknown(struct weir_error *error);
/* WEIR_CONFLICT: the attempt has another report. */
enum weir_status refusal_callback_other(const char *id, struct weir_error *error);

/* WEIR_CONFLICT: another holder has the lock. */
enum weir_status refusal_lock_held(const char *name, struct weir_error *error);
/* WEIR_CONFLICT: the caller does not hold the lock that it extends or frees. */
enum weir_status refusal_lock_not_held(const char *name, struct weir_error *error);

/* Why a wake ended no wait. The counts are those of the execution's waits on record: of all, of those of the kind that
 * the act names, and of these with a time. */
const char *refusal_of_wake(const char *waits_for, int64_t waits, int64_t wanted, int64_t timed);

/* A migration that is refused, with the outcome of the SQL of both stores:
 *   "ended", "temporal", "held", "same"
 *   "no_version"  the workflow has no version `to_version`, or it is deleted
 *   "steps"       `steps` has the steps on record that do not fit */
enum weir_status refusal_of_migration(const char *id, const char *state, const char *outcome, int to_version,
                                      const char *steps, struct weir_error *error);

/* A decision that is refused. */
struct refused_approval {
    /* The outcome:
     *   "none"        no step waits
     *   "temporal"    its workflow is one of Temporal
     *   "several"     `who` has the steps
     *   "decided"     `who` has the first decision as JSON, with `state` of the execution and `is_unused`
     *   "earlier"     the caller has named no step. This one was decided before, as above, and `waits` is another one
     *   "late"        its timeout has passed
     *   "forbidden"   `who` has the actors in `by`
     * Any other text is the state of an execution that has ended. */
    const char *outcome;
    const char *step;
    const char *waits;
    const char *who; /* NULL = unknown */
    const char *actor;
};
enum weir_status refusal_of_approval(const char *id, const struct refused_approval *refused, struct weir_error *error);

#endif
