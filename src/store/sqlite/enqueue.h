/* Enqueueing inside an open transaction: the part that enqueue, enqueue_on and retry share. */
#ifndef WEIR_STORE_SQLITE_ENQUEUE_H
#define WEIR_STORE_SQLITE_ENQUEUE_H

#include "store/sqlite/sqlite_store.h"

/* Sets are often of one workspace and workflow: what was looked up last is kept for the next request. */
struct enqueue_context {
    struct connection *connection;
    struct lane_changes *changes;
    struct uuid_source *uuids;
    int64_t now_us;
    int64_t wall_us;
    struct {
        char name[WORKSPACE_NAME_MAX + 1];
        int64_t id;
    } workspace;
    struct {
        char name[WORKFLOW_NAME_MAX + 1];
        int64_t workspace_id;
        int64_t id;
    } workflow;
    struct {
        char group[GROUP_NAME_MAX + 1];
        int64_t workspace_id;
        int64_t id;
    } lane;
};

/* A row that is ready to go in: what a request amounts to, or what a retry copies. */
struct new_item {
    const char *id;
    int64_t workspace_id;
    int64_t definition_id;
    const char *group;
    int priority;
    int64_t run_at_us;
    const char *params; /* NULL = none */
    size_t params_length;
    const char *idempotency_key;
    const char *retry_of;
};
enum weir_status enqueue_item(struct enqueue_context *context, const struct new_item *item, struct weir_error *error);
/* One request; its own failure goes to `result`. Anything else than WEIR_OK is a failure of the store. */
enum weir_status enqueue_request(struct enqueue_context *context, const struct enqueue_request *request,
                                 struct enqueue_result *result, struct weir_error *error);

#endif
