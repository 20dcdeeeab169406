/* The settings of the queue: plans, workspaces, workflows, pauses. They are data, changed without a restart; each change is
 * an act on record. store/store.h includes this file.
 */
#ifndef WEIR_STORE_SETTINGS_H
#define WEIR_STORE_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct store;

/* max_pending: the most PENDING executions of a workspace, beside 0 = leave as it is. */
enum { PENDING_OF_PLAN = -1, PENDING_UNLIMITED = -2 };

struct plan_change {
    const char *name;
    int64_t max_concurrent; /* 0 = leave */
    int weight;             /* 0 = leave */
    int64_t max_pending;    /* 0 = leave, PENDING_UNLIMITED */
};
/* Makes the plan when it is new (then max_concurrent must be given). */
WEIR_MUST_CHECK enum weir_status store_set_plan(struct store *store, const struct plan_change *change,
                                                struct weir_error *error);

struct workspace_change {
    const char *name;
    const char *plan;       /* NULL = leave; a new workspace without one gets "free" */
    int64_t max_concurrent; /* 0 = leave, -1 = that of the plan again */
    int64_t max_pending;    /* 0 = leave, PENDING_OF_PLAN, PENDING_UNLIMITED */
    int paused;             /* -1 = leave, 0, 1 */
    bool create;            /* false: WEIR_WORKSPACE_NOT_FOUND with the nearest name */
};
WEIR_MUST_CHECK enum weir_status store_set_workspace(struct store *store, const struct workspace_change *change,
                                                     struct weir_error *error);
/* Gives a workspace another name. It keeps its id, and so all that belongs to it: limits, pause, executions, keys,
 * schedules, hooks, and the scopes of tokens and roles. Each execution that is assigned later runs under the new name; one
 * that runs keeps the name that it was started with. The old name is free at once. The act is on record under the old name.
 * WEIR_WORKSPACE_NOT_FOUND. WEIR_CONFLICT: another workspace has the name. WEIR_INVALID_ARGUMENT: it is no name, or the
 * present one. WEIR_ILLEGAL_STATE: executions run on Temporal under workflow ids that may contain the old name. */
WEIR_MUST_CHECK enum weir_status store_rename_workspace(struct store *store, const char *name, const char *new_name,
                                                        struct weir_error *error);
/* A workspace with running executions is not deleted, nor one with waiting executions unless `fails_waiting` is set. */
struct workspace_deletion {
    const char *name;
    bool fails_waiting; /* waiting executions end FAILED, code `workspace_deleted` */
    bool erases;        /* purges the history, and removes the idempotency keys and the workspace's own workflows */
};
struct deletion_result {
    size_t failed; /* waiting executions that were ended */
    size_t erased; /* ended executions that were purged */
};
enum { DELETION_BATCH = 500, ERASURE_BATCH = 1000 };
/* Deletes the workspace with its limit and pause; its own workflows take no more executions. The history stays under an id
 * without a name until retention removes it, unless it is erased. A later workspace of the name is another one. The
 * deletion is on record. In transactions of DELETION_BATCH waiting executions; with more of them the workspace is paused
 * until the last. `erases` of a name whose workspace is deleted already erases what is left of its history: so a call that
 * was interrupted is repeated. WEIR_WORKSPACE_NOT_FOUND; WEIR_ILLEGAL_STATE: executions live, nothing was changed;
 * WEIR_STORE_BUSY: another transaction holds one of them. */
WEIR_MUST_CHECK enum weir_status store_delete_workspace(struct store *store, const struct workspace_deletion *deletion,
                                                        struct deletion_result *ret_result, struct weir_error *error);
/* The second half of a deletion that erases: what is left of a workspace that is deleted. WEIR_WORKSPACE_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status store_erase_workspace(struct store *store, const char *name, size_t *ret_erased,
                                                       struct weir_error *error);
enum workflow_state { WORKFLOW_PUBLISHED, WORKFLOW_DISABLED, WORKFLOW_DELETED };
/* Disables, enables (WORKFLOW_PUBLISHED) or deletes all versions of a workflow. Disabled: no new executions, nor retries;
 * those in the queue go on, and versions that are published meanwhile are disabled too. Deleted: the name can be published
 * anew, with the next version; its schedules are deleted, too. `workspace`: its owner; NULL = the one of all workspaces.
 * WEIR_WORKFLOW_NOT_FOUND, WEIR_WORKSPACE_NOT_FOUND; WEIR_ILLEGAL_STATE: deleted while executions of it have not ended. */
WEIR_MUST_CHECK enum weir_status store_set_workflow_state(struct store *store, const char *name, const char *workspace,
                                                          enum workflow_state state, struct weir_error *error);
/* Pauses or resumes claiming of a group, or of the whole queue (group NULL). */
WEIR_MUST_CHECK enum weir_status store_set_paused(struct store *store, const char *group, bool paused,
                                                  struct weir_error *error);

enum { DEFINITION_SOURCE_BYTES_MAX = 1024 * 1024 };

/* Those that a publication adds, changes or deletes: at most all of its text and all of the version before. */
enum { PUBLISHED_SCHEDULES_MAX = 64, PUBLISHED_NAME_MAX = 64 };
enum published_change { SCHEDULE_ADDED, SCHEDULE_CHANGED, SCHEDULE_DELETED };
#define PUBLISHED_CHANGES 3

struct published_schedule {
    enum published_change change;
    char name[PUBLISHED_NAME_MAX + 1];
};

struct published {
    int version;
    bool unchanged;      /* the newest version has the same text: no new one was made */
    int earlier_version; /* the newest older one with the text of a version that was made; 0 = none */
    int64_t definition_id;
    size_t schedule_count;
    struct published_schedule schedules[PUBLISHED_SCHEDULES_MAX];
};
/* Publishes a definition (canonical text). Versions are immutable and count from 1 per (workspace, name). `source`: the
 * YAML that the text was made from, of at most DEFINITION_SOURCE_BYTES_MAX bytes, kept for people to read; NULL = none is
 * kept. An equal canonical text makes no new version, whatever its source, and the version keeps the source that it was
 * made from. The schedules of the text are set and all others of the definition removed, also without a new version
 * (store/definition_schedules.h). WEIR_CONFLICT: a schedule has the name of another one; else the errors of
 * store_schedule_set(). Nothing is changed then. */
WEIR_MUST_CHECK enum weir_status store_publish(struct store *store, const char *name, const char *workspace,
                                               const char *text, const char *source, struct published *ret_published,
                                               struct weir_error *error);
/* The answer that store_publish() would give; nothing is changed. The version may be another one when it is published. */
WEIR_MUST_CHECK enum weir_status store_try_publish(struct store *store, const char *name, const char *workspace,
                                                   const char *text, const char *source, struct published *ret_published,
                                                   struct weir_error *error);
/* Notes a schedule of a publication; more than PUBLISHED_SCHEDULES_MAX are left out. */
void published_add(struct published *published, enum published_change change, const char *name);
/* The same of a JSON array of names; NULL = none. */
void published_add_all(struct published *published, enum published_change change, const json_t *names);
/* "schedules_added", "schedules_changed" or "schedules_deleted". */
const char *published_change_key(enum published_change change);
/* Adds the three lists of names to an object. False: out of memory. */
bool published_put_schedules(const struct published *published, json_t *object);

#endif
