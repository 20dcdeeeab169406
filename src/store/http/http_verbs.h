/* The handle of the driver, and its verbs, each in the file of its kind. Contracts: store/driver.h. */
#ifndef WEIR_STORE_HTTP_HTTP_VERBS_H
#define WEIR_STORE_HTTP_HTTP_VERBS_H

#include "remote/client.h"
#include "store/complete.h"
#include "store/driver.h"

struct http_store {
    struct store store;
    struct remote_client client;
};

static inline struct remote_client *client_of(struct store *store)
{
    return &((struct http_store *)store)->client;
}

/* remote_client_send() with the actor, the reason and the deadline of the handle. */
WEIR_MUST_CHECK enum weir_status remote_read(struct store *store, json_t **ret_answer, struct weir_error *error);
WEIR_MUST_CHECK enum weir_status http_read_long(struct store *store, json_t **ret_answer, struct weir_error *error);
WEIR_MUST_CHECK enum weir_status remote_change(struct store *store, const char *method, json_t **ret_answer,
                                               struct weir_error *error);
WEIR_MUST_CHECK enum weir_status http_change_long(struct store *store, const char *method, json_t **ret_answer,
                                                  struct weir_error *error);
/* Adds a text, or nothing for NULL. False: out of memory. */
bool remote_add_text(json_t *body, const char *key, const char *text);
/* PUT with this body, which is taken. */
WEIR_MUST_CHECK enum weir_status remote_put(struct store *store, json_t *body, bool *ret_is_new, struct weir_error *error);
/* With a body of this media type. A change that may come twice. */
WEIR_MUST_CHECK enum weir_status remote_change_as(struct store *store, const char *method, const char *type,
                                                  json_t **ret_answer, struct weir_error *error);
/* The conditions of a filter as arguments of the query. */
void http_add_filter(struct remote_client *client, const struct execution_filter *filter);
/* WEIR_STORE_NOT_WEIR: the answer lacks a member that every server sends. */
enum weir_status http_refuse_answer(const char *member, struct weir_error *error);

/* enqueue.c */
enum weir_status http_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                              struct enqueue_result *results, struct weir_error *error);
/* reads.c */
enum weir_status http_require_schema(struct store *store, struct weir_error *error);
enum weir_status http_time(struct store *store, int64_t *ret_now_us, struct weir_error *error);
enum weir_status http_plan(struct store *store, struct arena *arena, const struct store_migration **ret_migrations,
                           size_t *ret_count, struct weir_error *error);
enum weir_status http_check(struct store *store, json_t **ret_problems, struct weir_error *error);
enum weir_status http_list(struct store *store, const struct list_options *options, json_t **ret_page,
                           struct weir_error *error);
enum weir_status http_show(struct store *store, const char *id, json_t **ret_execution, struct weir_error *error);
enum weir_status http_why(struct store *store, const char *id, json_t **ret_why, struct weir_error *error);
enum weir_status http_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error);
enum weir_status http_list_logs(struct store *store, const char *id, struct arena *arena, struct log_attempt **ret_attempts,
                                size_t *ret_count, struct weir_error *error);
enum weir_status http_read_log(struct store *store, const char *id, const char *step, int attempt, int64_t after,
                               struct arena *arena, struct log_chunk **ret_chunks, size_t *ret_count,
                               struct weir_error *error);
enum weir_status http_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                      struct definition_text *ret_definition, struct weir_error *error);
/* acts.c */
enum weir_status http_complete(struct store *store, const struct completion *completion, struct weir_error *error);
enum weir_status http_signal(struct store *store, const struct signal_request *request, struct sent_signal *ret_sent,
                             struct weir_error *error);
enum weir_status http_bulk(struct store *store, enum bulk_act act, const struct act_order *order,
                           const struct execution_filter *filter, const char *after, size_t limit,
                           struct bulk_result *ret_result, struct weir_error *error);
enum weir_status http_note_act(struct store *store, const char *act, const char *subject, const char *detail,
                               struct weir_error *error);
enum weir_status http_set_desired_state(struct store *store, const char *name, enum desired_state desired_state,
                                        struct weir_error *error);
enum weir_status http_set_paused(struct store *store, const char *group, bool paused, struct weir_error *error);
enum weir_status http_lock(struct store *store, const struct lock_request *request, struct weir_error *error);
enum weir_status http_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error);
enum weir_status http_unlock(struct store *store, const struct lock_request *request, struct weir_error *error);
/* settings.c */
enum weir_status http_token_revoke(struct store *store, const char *name, struct weir_error *error);
enum weir_status http_set_plan(struct store *store, const struct plan_change *change, struct weir_error *error);
enum weir_status http_set_workspace(struct store *store, const struct workspace_change *change, struct weir_error *error);
enum weir_status http_rename_workspace(struct store *store, const char *name, const char *new_name,
                                       struct weir_error *error);
enum weir_status http_delete_workspace(struct store *store, const struct workspace_deletion *deletion,
                                       struct deletion_step *ret_step, struct weir_error *error);
enum weir_status http_erase_workspace(struct store *store, const char *name, struct erasure_step *step,
                                      struct weir_error *error);
enum weir_status http_set_workflow_state(struct store *store, const char *name, const char *workspace,
                                         enum workflow_state state, struct weir_error *error);
enum weir_status http_publish(struct store *store, const struct publication *publication, struct published *ret_published,
                              struct weir_error *error);
/* hooks.c */
enum weir_status http_hook_set(struct store *store, const struct hook_request *request, bool *ret_is_new,
                               struct weir_error *error);
enum weir_status http_hook_pause(struct store *store, const char *name, bool paused, struct weir_error *error);
enum weir_status http_hook_delete(struct store *store, const char *name, struct weir_error *error);
/* schedules.c */
enum weir_status http_schedule_set(struct store *store, const struct schedule_request *request, int64_t due_us,
                                   bool *ret_is_new, struct weir_error *error);
enum weir_status http_schedule_pause(struct store *store, const char *name, bool paused, struct weir_error *error);
enum weir_status http_schedule_delete(struct store *store, const char *name, struct weir_error *error);
enum weir_status http_schedule_trigger(struct store *store, const struct schedule_trigger *trigger, const char *key,
                                       const char *arguments, struct schedule_counts *ret_counts, struct weir_error *error);

#endif
