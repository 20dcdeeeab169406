/* All that the handlers of the routes can reach beside the store, and the admission of a request.
 *
 * A request is admitted in two steps. Before its body is read, the thread of the listener admits its head, without a
 * call of the store. Then an answering thread admits the whole of it. Only a token that is younger than the set in
 * memory needs the second step to be found.
 */
#ifndef WEIR_SERVER_API_H
#define WEIR_SERVER_API_H

#include "queue/limits.h"
#include "server/access.h"
#include "server/embed_policy.h"
#include "server/http_metrics.h"
#include "server/probes.h"
#include "server/route.h"
#include "server/task_service.h"

enum { TASK_SERVICES_MAX = 32 };

/* The longest body that is read for a token that is not known yet. */
enum { API_UNKNOWN_BODY_MAX = 64 * 1024 };

struct bulk_jobs;
struct oidc;
struct stream_hub;

/* Sends a signal to an execution, which is the answer of store_show(): by the store, or by the service of a workflow on
 * Temporal, where `seq` is 0. Any thread. Errors of store_signal(), and of the service. */
typedef enum weir_status api_signal(const void *context, struct store *store, const json_t *execution,
                                    const struct signal_request *request, struct sent_signal *ret_sent,
                                    struct weir_error *error);

/* Kills a process of `weir demo` that is a node, and names it. `store`: of the request. Any thread. WEIR_CONFLICT: none can
 * be killed now; errors of store_list(). */
struct killed_node {
    char name[NODE_NAME_MAX + 1];
    int64_t pid;
};
typedef enum weir_status api_kill_node(void *context, struct store *store, struct killed_node *ret_killed,
                                       struct weir_error *error);

/* Owner: the process; it outlives the server. Each member has rules of its own for threads. */
struct api {
    struct probes probes;
    struct task_service task_services[TASK_SERVICES_MAX]; /* one for each node */
    size_t task_service_count;
    struct http_metrics requests;
    struct access *access;
    struct bulk_jobs *bulk;
    struct stream_hub *streams;
    struct oidc *oidc;                         /* NULL = no provider is set */
    bool has_dashboard;                        /* the pages of the dashboard are served */
    char embed_policy[EMBED_POLICY_BYTES_MAX]; /* of the box for pages of other sites; "" = none may frame it */
    api_signal *signal;
    const void *signal_context;
    api_kill_node *kill_node; /* NULL = the process is no demo: it has no such route */
    void *kill_context;
};

/* Reads the token of the head; the route is found. False: the answer is a refusal. Any thread. */
bool api_admit_head(struct api *api, size_t body_length, struct http_request *request, struct http_answer *answer);
/* Whether the request may reach its handler; else the answer is filled. Makes the actor of the following calls of `store`
 * the caller, with the reason of the request. Any thread of the server. */
bool api_admit(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer);
/* The actor of the acts of the handle is from now on that of this request. api_admit() does it; a handler of a set, for
 * each request whose work may be an act. */
WEIR_MUST_CHECK enum weir_status api_set_actor(struct store *store, const struct http_request *request,
                                               struct weir_error *error);

/* Counts a wrong secret or code for the address of the client. True: it has sent too many; *ret_retry_after_s is set. The
 * second one does not count. Any thread of the server. */
bool api_count_guess(const struct api *api, const struct http_request *request, int *ret_retry_after_s);
bool api_has_guessed(const struct api *api, const struct http_request *request, int *ret_retry_after_s);

/* The same check of request->secret for a route of SCOPE_OPEN that has read it from its body. NULL: it has none, which is
 * refused. Any thread of the server. */
bool api_admit_secret(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer);

#endif
