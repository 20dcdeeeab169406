/* The texts of refusals that both drivers give, each with the hint that names the next command.
 *
 * A driver finds out that it must refuse; the text comes from here, so that a user reads the same sentence on every store.
 * The functions fill the caller's error and return its status. They hold no state and run in the thread of the caller.
 */
#include "store/refusal.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/shell_quote.h"
#include "queue/scheduler.h"
#include "store/reading.h"

enum weir_status refusal_read_only(const char *url, struct weir_error *error)
{
    return error_set(error, WEIR_NOT_PERMITTED, "the store %s was opened for reading only", url);
}

/* --- the schema --- */

enum weir_status refusal_schema_missing(const char *url, struct weir_error *error)
{
    char word[SHELL_WORD_MAX];
    error_set(error, WEIR_SCHEMA_MISSING, "the store %s has no tables yet", url);
    error_hint(error, "make them with: weir store init --store %s", shell_quote(url, word));
    return WEIR_SCHEMA_MISSING;
}

enum weir_status refusal_schema_older(const char *url, int version, int needed, struct weir_error *error)
{
    error_set(error, WEIR_SCHEMA_OLDER, "the store %s has schema %d, this program needs %d", url, version, needed);
    error_hint(error, "see what will change with: weir store plan; then: weir store migrate");
    return WEIR_SCHEMA_OLDER;
}

enum weir_status refusal_schema_newer(const char *url, int version, int known, struct weir_error *error)
{
    error_set(error, WEIR_SCHEMA_NEWER, "the store %s has schema %d, this program knows up to %d", url, version, known);
    error_hint(error, "it was used by a newer weir: install that version; nothing was changed");
    return WEIR_SCHEMA_NEWER;
}

/* --- names --- */

void refusal_suggest_name(const char *wanted, const char *const *names, size_t count, struct weir_error *error)
{
    INVARIANT(names != NULL || count == 0);
    const char *nearest = count == 0 ? NULL : text_nearest(wanted, names, count);
    if (nearest != NULL) {
        error_hint(error, "did you mean \"%s\"?", nearest);
    }
}

enum weir_status refusal_unknown_name(enum weir_status refusal, const char *kind, const char *name,
                                      const char *const *names, size_t count, const char *how, struct weir_error *error)
{
    INVARIANT(refusal != WEIR_OK);
    error_set(error, refusal, "there is no %s \"%s\"", kind, name);
    error_hint(error, "%s", how);
    refusal_suggest_name(name, names, count, error);
    return refusal;
}

enum weir_status refusal_plan_without_limit(const char *name, struct weir_error *error)
{
    error_set(error, WEIR_PLAN_NOT_FOUND, "there is no plan \"%s\"", name);
    error_hint(error, "a new plan needs its limit: weir plan set %s --max-concurrent 5", name);
    return WEIR_PLAN_NOT_FOUND;
}

enum weir_status refusal_definition_missing(int64_t definition_id, struct weir_error *error)
{
    return error_set(error, WEIR_WORKFLOW_NOT_FOUND, "the workflow definition %lld is gone", (long long)definition_id);
}

/* A caller with the old name has a setting or a program to change, so the new name is of more use than the nearest one. */
void refusal_hint_new_name(const char *new_name, struct weir_error *error)
{
    if (new_name != NULL) {
        error_hint(error, "the workspace was renamed to \"%s\"", new_name);
    }
}

/* --- deletions --- */

enum weir_status refusal_workspace_lives(const char *name, int64_t waiting, int64_t running, struct weir_error *error)
{
    INVARIANT(name != NULL);
    error_set(error, WEIR_ILLEGAL_STATE, "workspace \"%s\" has %lld waiting and %lld running executions", name,
              (long long)waiting, (long long)running);
    if (running > 0) {
        error_hint(error,
                   "pause it, then await the running ones or cancel them (weir cancel -w NAME), and delete it again");
    } else {
        error_hint(error, "await them, cancel them (weir cancel -w NAME), or let the deletion end them (--fail-waiting)");
    }
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_workspace_name_taken(const char *name, struct weir_error *error)
{
    INVARIANT(name != NULL);
    error_set(error, WEIR_CONFLICT, "a workspace \"%s\" exists already", name);
    error_hint(error, "give another name; two workspaces cannot be made one");
    return WEIR_CONFLICT;
}

enum weir_status refusal_workspace_name_used(const char *name, int64_t running, struct weir_error *error)
{
    INVARIANT(name != NULL && running > 0);
    error_set(error, WEIR_ILLEGAL_STATE,
              "%lld running execution%s of workspace \"%s\" on Temporal may have its name in the workflow id",
              (long long)running, running == 1 ? "" : "s", name);
    error_hint(error, "pause it, await or cancel the running ones, and rename it again");
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_workspace_locked(const char *name, struct weir_error *error)
{
    error_set(error, WEIR_STORE_BUSY, "other transactions hold the waiting executions of workspace \"%s\"", name);
    error_hint(error, "the workspace is not deleted; repeat the deletion");
    return WEIR_STORE_BUSY;
}

enum weir_status refusal_erasure_without_archive(const char *workspace, const char *id, struct weir_error *error)
{
    char word[SHELL_WORD_MAX];
    error_set(error, WEIR_ILLEGAL_STATE,
              "workspace \"%s\" is not erased: the content of execution %s is in the archive, which is missing", workspace,
              id);
    error_hint(error,
               "put the file back (`weir doctor` has its path), or make an empty file there if it is lost; then: weir "
               "workspace delete %s --erase",
               shell_quote(workspace, word));
    return WEIR_ILLEGAL_STATE;
}

/* The command that names a workflow: of a workspace, or with NULL of all workspaces. */
static void hint_workflow_command(const char *verb, const char *name, const char *workspace, const char *rest,
                                  struct weir_error *error)
{
    char word[SHELL_WORD_MAX];
    char owner[SHELL_WORD_MAX];
    error_hint(error, "weir workflow %s %s%s%s%s", verb, shell_quote(name, word), workspace == NULL ? "" : " -w ",
               workspace == NULL ? "" : shell_quote(workspace, owner), rest);
}

enum weir_status refusal_workflow_lives(const char *name, const char *workspace, int64_t living, struct weir_error *error)
{
    error_set(error, WEIR_ILLEGAL_STATE, "%lld execution%s of workflow \"%s\" ha%s not ended", (long long)living,
              living == 1 ? "" : "s", name, living == 1 ? "s" : "ve");
    hint_workflow_command("disable", name, workspace, " refuses new ones; await the present ones, or cancel them", error);
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_workflow_disabled(const char *name, const char *workspace, struct weir_error *error)
{
    error_set(error, WEIR_WORKFLOW_DISABLED, "workflow \"%s\" is disabled: it takes no new executions", name);
    hint_workflow_command("enable", name, workspace, "", error);
    return WEIR_WORKFLOW_DISABLED;
}

enum weir_status refusal_queue_full(const char *workspace, int64_t most, struct weir_error *error)
{
    INVARIANT(workspace != NULL && most > 0);
    char word[SHELL_WORD_MAX];
    error_set(error, WEIR_QUEUE_FULL, "workspace \"%s\" has %lld pending executions, as many as it may have", workspace,
              (long long)most);
    error_hint(error, "repeat it later, or raise the limit: weir workspace set %s --max-pending N",
               shell_quote(workspace, word));
    return WEIR_QUEUE_FULL;
}

enum weir_status refusal_firing_removed(struct weir_error *error)
{
    return error_set(error, WEIR_ILLEGAL_STATE, "the firing was removed, or another node has started it");
}

/* --- nodes and locks --- */

enum weir_status refusal_handler_sets_full(struct weir_error *error)
{
    (void)error_set(error, WEIR_ILLEGAL_STATE, "the definitions of the store need %d different sets of handlers, the most",
                    (int)HANDLER_SET_MOST);
    error_hint(error, "give the workflow the same handlers as another one, or fewer workflows handlers of their own");
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_node_ended(int64_t node_id, struct weir_error *error)
{
    return error_set(error, WEIR_STALE_FENCE, "node %lld is dead or stopped", (long long)node_id);
}

enum weir_status refusal_lease_lost(int64_t node_id, struct weir_error *error)
{
    return error_set(error, WEIR_STALE_FENCE, "the lease of node %lld is lost", (long long)node_id);
}

/* The names of live nodes come as a hint, since a wrong name is the likely mistake. */
enum weir_status refusal_no_live_node(const char *name, const char *names, bool is_cut, struct weir_error *error)
{
    INVARIANT(names != NULL);
    error_set(error, WEIR_NOT_FOUND, "there is no live node \"%s\"", name);
    if (names[0] == '\0') {
        error_hint(error, "no node is alive");
    } else {
        error_hint(error, "alive are: %s%s", names, is_cut ? " ..." : "");
    }
    return WEIR_NOT_FOUND;
}

enum weir_status refusal_lock_held(const char *name, struct weir_error *error)
{
    return error_set(error, WEIR_CONFLICT, "another holder has the lock %s", name);
}

enum weir_status refusal_lock_not_held(const char *name, struct weir_error *error)
{
    return error_set(error, WEIR_CONFLICT, "this holder does not have the lock %s", name);
}

enum weir_status refusal_signal_ended(const char *id, const char *state, struct weir_error *error)
{
    if (strcmp(state, "gone") == 0) {
        return reading_refuse_missing(id, error);
    }
    return error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s: it has ended and takes no signal", id, state);
}

/* The service keeps signals of its workflows itself; a copy in the store would have two owners. */
enum weir_status refusal_signal_of_temporal(const char *id, struct weir_error *error)
{
    error_set(error, WEIR_CONFLICT, "execution %s is of a workflow on Temporal, whose service keeps its signals", id);
    error_hint(error, "pass the signal on with `weir signal`, or by POST /v1/executions/ID/signal of a node");
    return WEIR_CONFLICT;
}

enum weir_status refusal_signal_unknown(const char *id, const char *name, const char *names, struct weir_error *error)
{
    INVARIANT(names != NULL);
    error_set(error, WEIR_INVALID_ARGUMENT, "no step of execution %s waits for a signal \"%.80s\"", id, name);
    if (names[0] == '\0') {
        error_hint(error, "its workflow has no signal steps");
    } else {
        error_hint(error, "its steps wait for: %s", names);
    }
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status refusal_of_update(const char *id, const struct update_refusal *refusal, struct weir_error *error)
{
    const char *outcome = refusal->outcome;
    INVARIANT(outcome != NULL);
    if (strcmp(outcome, "held") == 0) {
        error_set(error, WEIR_CONFLICT, "a node holds execution %s, and its handler decides about the state", id);
        error_hint(error, "repeat it when the execution is WAITING or PENDING");
        return WEIR_CONFLICT;
    }
    if (strcmp(outcome, "other_state") == 0) {
        error_set(error, WEIR_CONFLICT, "execution %s is in the state \"%.64s\", and the update is for another", id,
                  refusal->name);
        error_hint(error, "look at it (weir show); it may have been updated already");
        return WEIR_CONFLICT;
    }
    if (strcmp(outcome, "no_states") == 0) {
        return error_set(error, WEIR_ILLEGAL_STATE, "the workflow of execution %s has no states", id);
    }
    if (strcmp(outcome, "unknown_state") == 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the workflow of execution %s has no state \"%.64s\"", id, refusal->name);
        error_hint(error, "its states are: %.200s", refusal->names);
        return WEIR_INVALID_ARGUMENT;
    }
    if (strcmp(outcome, "unknown_variable") == 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the workflow of execution %s has no variable \"%.64s\"", id,
                  refusal->name);
        error_hint(error, refusal->names[0] == '\0' ? "it has none" : "its variables are: %.200s", refusal->names);
        return WEIR_INVALID_ARGUMENT;
    }
    if (strcmp(outcome, "wrong_type") == 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the variable \"%.64s\" must be of the type %.16s", refusal->name,
                         refusal->names);
    }
    if (strcmp(outcome, "too_large") == 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the variables are too long: one has at most %d bytes, all have %d",
                         STATE_VARIABLE_BYTES_MAX, STATE_VARIABLES_BYTES_MAX);
    }
    return strcmp(outcome, "gone") == 0
               ? error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id)
               : error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s: it has ended and takes no update", id, outcome);
}

enum weir_status refusal_signal_large(size_t bytes, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "the data of the signal is %zu bytes, the limit is %d", bytes,
              SIGNAL_DATA_BYTES_MAX);
    error_hint(error, "store the data elsewhere and pass a reference to it");
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status refusal_signal_key_reused(const char *id, const char *key, int64_t seq, struct weir_error *error)
{
    error_set(error, WEIR_IDEMPOTENCY_KEY_REUSED,
              "key \"%.80s\" belongs to signal %lld of execution %s, which has other data", key, (long long)seq, id);
    error_hint(error, "use another key for another signal");
    return WEIR_IDEMPOTENCY_KEY_REUSED;
}

enum weir_status refusal_signals_full(const char *id, const char *name, int64_t count, int64_t bytes,
                                      struct weir_error *error)
{
    INVARIANT(id != NULL && name != NULL);
    error_set(error, WEIR_ILLEGAL_STATE,
              "execution %s keeps %lld signals \"%.80s\" with %lld bytes that no step has consumed", id, (long long)count,
              name, (long long)bytes);
    error_hint(
        error,
        "at most %d signals of a name are kept, and the names of a workflow share %d bytes; `weir show %s` lists them",
        SIGNALS_KEPT_MOST, SIGNALS_KEPT_BYTES_MOST, id);
    return WEIR_ILLEGAL_STATE;
}

/* One text for all: a caller that guesses tokens or ids must not learn which part was right. */
enum weir_status refusal_callback_unknown(struct weir_error *error)
{
    error_set(error, WEIR_NOT_FOUND, "no step waits for this report");
    error_hint(error,
               "the attempt is over or its callback has passed, a later one has begun, or the token is not the whole "
               "value of Weir-Callback");
    return WEIR_NOT_FOUND;
}

enum weir_status refusal_callback_other(const char *id, struct weir_error *error)
{
    return error_set(error, WEIR_CONFLICT, "another report of this attempt of execution %s came first", id);
}

enum weir_status refusal_token_exists(const char *name, struct weir_error *error)
{
    error_set(error, WEIR_CONFLICT, "there is a token \"%s\" already", name);
    error_hint(error, "give another name, or revoke the old one first: weir token revoke");
    return WEIR_CONFLICT;
}

enum weir_status refusal_tokens_full(struct weir_error *error)
{
    error_set(error, WEIR_ILLEGAL_STATE, "the store has %d tokens, which is the most", TOKENS_MOST);
    error_hint(error, "revoke those that are not used: `weir token list` shows the last use of each");
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_hooks_full(struct weir_error *error)
{
    error_set(error, WEIR_ILLEGAL_STATE, "the store has %d hooks, which is the most", HOOKS_MOST);
    error_hint(error, "delete those that are not used, or join them: weir hook list");
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_schedules_full(struct weir_error *error)
{
    error_set(error, WEIR_ILLEGAL_STATE, "the store has %d schedules, which is the most", SCHEDULES_MOST);
    error_hint(error, "delete those that are not used, or name several workspaces in one: weir schedule list");
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_schedule_expands(const char *schedule, struct weir_error *error)
{
    error_set(error, WEIR_ILLEGAL_STATE,
              "schedule \"%s\" has very many workspaces, and fires in some of them at the moment", schedule);
    error_hint(error, "repeat the call in some seconds; if it fails again, look for a node that runs: weir node list");
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_schedule_of_definition(const char *schedule, const char *definition, struct weir_error *error)
{
    INVARIANT(schedule != NULL && definition != NULL);
    error_set(error, WEIR_ILLEGAL_STATE, "schedule \"%s\" is set by the definition of workflow \"%s\"", schedule,
              definition);
    error_hint(error, "change its section `schedules` and apply it; to stop the schedule: weir schedule pause %s",
               schedule);
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_schedule_name_taken(const char *schedule, const char *definition, struct weir_error *error)
{
    INVARIANT(schedule != NULL && definition != NULL);
    bool is_of_user = definition[0] == '\0';
    error_set(error, WEIR_CONFLICT, "schedule \"%s\" exists already, and %s%s%s", schedule,
              is_of_user ? "was set by `weir schedule set`" : "is set by the definition of workflow \"",
              is_of_user ? "" : definition, is_of_user ? "" : "\"");
    error_hint(error,
               is_of_user ? "give it another name in the definition, or delete that one: weir schedule delete %s"
                          : "schedules of all definitions have different names; give \"%s\" another one",
               schedule);
    return WEIR_CONFLICT;
}

enum weir_status refusal_workspace_of_schedule(const char *schedule, const char *workspace, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "schedule \"%s\" does not start executions in workspace \"%s\"", schedule,
              workspace);
    error_hint(error, "its workspaces: weir schedule show %s", schedule);
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status refusal_token_expired(struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "the token would have expired already");
    error_hint(error, "give a time in the future, as 90d or 2030-01-31T12:00:00Z");
    return WEIR_INVALID_ARGUMENT;
}

/* The counts decide between three reasons: nothing waits, nothing of the kind that was asked for, or nothing with a time of
 * its own. The last is a signal or a decision, whose end must have a sender. */
const char *refusal_of_wake(const char *waits_for, int64_t waits, int64_t wanted, int64_t timed)
{
    INVARIANT(waits >= 0 && wanted >= 0 && timed >= 0);
    if (timed > 0) {
        return REFUSAL_WAKE_TWICE;
    }
    if (wanted > 0) {
        return REFUSAL_WAKE_NO_TIMEOUT;
    }
    return waits == 0 ? REFUSAL_WAKE_NOTHING : waits_for != NULL ? REFUSAL_WAKE_OTHER : REFUSAL_WAKE_SIGNAL;
}

enum weir_status refusal_of_migration(const char *id, const char *state, const char *outcome, int to_version,
                                      const char *steps, struct weir_error *error)
{
    INVARIANT(id != NULL && state != NULL && outcome != NULL);
    if (strcmp(outcome, "no_version") == 0) {
        error_set(error, WEIR_WORKFLOW_NOT_FOUND, "execution %s is %s: its workflow has no version %d", id, state,
                  to_version);
        error_hint(error, "`weir workflow show NAME` lists the versions");
        return WEIR_WORKFLOW_NOT_FOUND;
    }
    if (strcmp(outcome, "same") == 0) {
        return error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s: it has version %d already", id, state, to_version);
    }
    if (strcmp(outcome, "steps") == 0) {
        error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s: version %d does not fit its steps on record: %s", id,
                  state, to_version, steps);
        error_hint(error, "publish a version that keeps these steps, or let the execution end with its own");
        return WEIR_ILLEGAL_STATE;
    }
    return error_set(error, WEIR_ILLEGAL_STATE, "execution %s is %s: %s", id, state,
                     strcmp(outcome, "temporal") == 0 ? REFUSAL_MIGRATE_TEMPORAL
                     : strcmp(outcome, "held") == 0   ? REFUSAL_MIGRATE_HELD
                                                      : REFUSAL_MIGRATE_ENDED);
}

/* A decision is final, and the first is mostly that of another person. The text names that person, and whether the decision
 * still counts, since the caller may be repeating its own after a lost answer. */
static enum weir_status refuse_decided(const char *id, const char *step, const char *data, struct weir_error *error)
{
    json_t *first = NULL;
    enum weir_status status = json_read(data, strlen(data), &first, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char *by = json_string_value(json_object_get(first, "by"));
    const char *at = json_string_value(json_object_get(first, "at"));
    const char *state = json_string_value(json_object_get(first, "state"));
    enum item_state known = ITEM_PENDING;
    bool has_ended = state != NULL && item_state_parse(state, &known) && item_is_terminal(known);
    error_set(error, WEIR_ILLEGAL_STATE, "step %s of execution %s was %s already, by %s at %s%s%s%s", step, id,
              json_is_true(json_object_get(first, "approved")) ? "approved" : "rejected",
              by == NULL ? "nobody on record" : by, at == NULL ? "an unknown time" : at,
              json_is_true(json_object_get(first, "is_unused")) ? "; not counted: the step had ended before" : "",
              has_ended ? "; the execution is " : "", has_ended ? state : "");
    json_decref(first);
    return WEIR_ILLEGAL_STATE;
}

enum weir_status refusal_of_approval(const char *id, const struct refused_approval *refused, struct weir_error *error)
{
    INVARIANT(id != NULL && refused != NULL);
    const char *outcome = refused->outcome;
    const char *who = refused->who == NULL ? "" : refused->who;
    if (strcmp(outcome, "decided") == 0) {
        return refuse_decided(id, refused->step, who, error);
    }
    if (strcmp(outcome, "earlier") == 0) {
        enum weir_status status = refuse_decided(id, refused->step, who, error);
        error_hint(error, "if another step is meant, name it: %s", refused->waits);
        return status;
    }
    if (strcmp(outcome, "late") == 0) {
        error_set(error, WEIR_ILLEGAL_STATE, "the timeout of step %s of execution %s has passed", refused->step, id);
        error_hint(error, "`weir show %s` shows what follows from that", id);
        return WEIR_ILLEGAL_STATE;
    }
    if (strcmp(outcome, "forbidden") == 0) {
        error_set(error, WEIR_NOT_PERMITTED, "%.255s may not decide step %s of execution %s",
                  refused->actor == NULL ? "a caller without a name" : refused->actor, refused->step, id);
        error_hint(error, "these may: %.600s", who);
        return WEIR_NOT_PERMITTED;
    }
    if (strcmp(outcome, "several") == 0) {
        error_set(error, WEIR_ILLEGAL_STATE, "several steps of execution %s wait for an approval", id);
        error_hint(error, "name one of them: %.600s", who);
        return WEIR_ILLEGAL_STATE;
    }
    if (strcmp(outcome, "temporal") == 0) { /* the hint names what a person does there instead */
        error_set(error, WEIR_ILLEGAL_STATE, "execution %s is of a workflow on Temporal, which has no steps to approve",
                  id);
        error_hint(error,
                   "its worker waits in its own code: `weir signal %s NAME` and `weir temporal update %s NAME` reach it",
                   id, id);
        return WEIR_ILLEGAL_STATE;
    }
    if (strcmp(outcome, "none") == 0) {
        error_set(error, WEIR_ILLEGAL_STATE, "no such step of execution %s waits for an approval", id);
        error_hint(error, "`weir why %s` shows what it waits for", id);
        return WEIR_ILLEGAL_STATE;
    }
    return refusal_signal_ended(id, outcome, error);
}
