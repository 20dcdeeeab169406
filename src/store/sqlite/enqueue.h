/* Enqueueing inside an open transaction: the part that enqueue, enqueue_on and retry share. */
#ifndef WEIR_STORE_SQLITE_ENQUEUE_H
#define WEIR_STORE_SQLITE_ENQUEUE_H

#include "store/sqlite/sqlite_store.h"

/* Sets often go round a few workspaces, so the found rows are kept for the requests that follow. Each is in the place
 * that its key points to. A newer one takes the place of an older one. */
enum { ENQUEUE_CACHED = 128 };

struct cached_workspace {
    char name[WORKSPACE_NAME_MAX + 1];
    int64_t id;
    struct pending_count pending;
};
struct cached_workflow {
    char name[WORKFLOW_NAME_MAX + 1];
    int64_t workspace_id;
    int64_t id;
    char group[GROUP_NAME_MAX + 1]; /* of the definition; "" = it names none */
    int64_t demand;
    bool has_labels;
};
struct cached_group {
    char name[GROUP_NAME_MAX + 1];
    int64_t id;
};

struct enqueue_context {
    struct connection *connection;
    struct news *news;
    struct write *write; /* for a mode of a key, which ends an execution; NULL where the requests have none */
    struct uuid_source *uuids;
    struct pending_room *rooms; /* of the handle */
    size_t count;               /* requests of the transaction, of all workspaces */
    int64_t now_us;
    int64_t wall_us;
    struct cached_workspace workspaces[ENQUEUE_CACHED];
    struct cached_workflow workflows[ENQUEUE_CACHED];
    struct cached_group groups[ENQUEUE_CACHED];
};

/* A row that is ready to go in: from a request, or the copy of a retry. */
struct new_item {
    const char *id;
    int64_t workspace_id;
    int64_t definition_id;
    const char *group;
    int64_t demand; /* of the definition */
    int priority;
    int64_t run_at_us;
    const char *params; /* NULL = none */
    size_t params_length;
    const char *idempotency_key;
    bool key_is_known; /* its row exists, and move_key points it to this item */
    const char *retry_of;
    const char *traceparent;
    const char *business_key;
    const char *labels;         /* of the request, a JSON object; NULL = none */
    bool definition_has_labels; /* a retry has the labels of the first execution, which has them already */
};
enum weir_status enqueue_item(struct enqueue_context *context, const struct new_item *item, struct weir_error *error);
/* One request; its own failure goes to `result`. Anything else than WEIR_OK is a failure of the store. */
enum weir_status enqueue_request(struct enqueue_context *context, const struct enqueue_request *request,
                                 struct enqueue_result *result, struct weir_error *error);

#endif
