/* The handlers of the probes. Each makes at most two calls of the store, with the deadline of every call of it. So an
 * answer comes in bounded time also when the store is away: it is then 503. Any thread of the server. */
#include "server/probes.h"

#include <jansson.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "server/problem_table.h"
#include "server/routes/routes.h"

#define READINESS_FRESH_US MICROSECONDS_PER_SECOND

struct checks {
    json_t *rows;
    bool are_fine;
    bool is_verbose;
    bool is_lost; /* out of memory */
};

/* `reason`: NULL = it is fine. `node`: NULL = of the whole process. */
static void add_check(struct checks *checks, const char *name, const char *node, const char *reason)
{
    checks->are_fine = checks->are_fine && reason == NULL;
    if (reason != NULL || checks->is_verbose) {
        json_t *row =
            json_pack("{s:s, s:b, s:s*, s:s*}", "check", name, "ok", reason == NULL, "node", node, "reason", reason);
        checks->is_lost = row == NULL || json_array_append_new(checks->rows, row) != 0 || checks->is_lost;
    }
}

/* The last answer of the store, for READINESS_FRESH_US: probes need no token, and must not keep the store busy. Before the
 * first answer the store counts as away. */
static struct {
    pthread_mutex_t lock;
    bool is_asked; /* a thread asks the store now; others take the last answer */
    int64_t until_us;
    enum weir_status status;
    bool has_scheduler;
} readiness = {.lock = PTHREAD_MUTEX_INITIALIZER, .status = WEIR_STORE_UNREACHABLE};

static void refresh_readiness(struct store *store)
{
    json_t *answer = NULL;
    (void)pthread_mutex_lock(&readiness.lock);
    bool asks = !readiness.is_asked && clock_boot(clock_system()) >= readiness.until_us;
    readiness.is_asked = readiness.is_asked || asks;
    (void)pthread_mutex_unlock(&readiness.lock);
    if (!asks) {
        return;
    }
    enum weir_status status = store_require_schema(store, NULL);
    if (status == WEIR_OK) {
        status = store_status(store, 0, &answer, NULL);
    }
    (void)pthread_mutex_lock(&readiness.lock);
    readiness.status = status;
    readiness.has_scheduler = !json_is_true(json_object_get(json_object_get(answer, "scheduler"), "is_free"));
    readiness.until_us = clock_boot(clock_system()) + READINESS_FRESH_US;
    readiness.is_asked = false;
    (void)pthread_mutex_unlock(&readiness.lock);
    json_decref(answer);
}

/* A schema that does not fit is reported instead of the failures that follow from it. `scheduler`: without one nothing
 * starts, on any node. The reason of the store is that of the table of problems: the message of the failure has the address
 * of the store, and goes to the log alone. */
static void check_store_readiness(struct checks *checks, struct store *store)
{
    refresh_readiness(store);
    (void)pthread_mutex_lock(&readiness.lock);
    enum weir_status status = readiness.status;
    bool has_scheduler = readiness.has_scheduler;
    (void)pthread_mutex_unlock(&readiness.lock);
    if (status != WEIR_OK) {
        bool is_schema = status == WEIR_SCHEMA_MISSING || status == WEIR_SCHEMA_OLDER || status == WEIR_SCHEMA_NEWER;
        const struct problem_kind *kind = problem_find(weir_status_name(status));
        add_check(checks, is_schema ? "schema" : "store", NULL, kind == NULL ? weir_status_name(status) : kind->meaning);
        return;
    }
    add_check(checks, "schema", NULL, NULL);
    add_check(checks, "store", NULL, NULL);
    add_check(checks, "scheduler", NULL, has_scheduler ? NULL : "no node schedules: nothing new starts");
}

/* A node that an operator has paused or drains is as it should be. */
static const char *reason_of_state(const char *state)
{
    static const char *const reasons[][2] = {
        {"stopping", "it is stopping"}, {"stopped", "it has stopped"}, {"lease_lost", "it was declared dead"}};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (state != NULL && strcmp(state, reasons[i][0]) == 0) {
            return reasons[i][1];
        }
    }
    return NULL;
}

static void check_node_readiness(struct checks *checks, struct node *node)
{
    struct weir_error error = {.status = WEIR_OK};
    json_t *status = node_status(node);
    if (status == NULL) {
        checks->is_lost = true;
        return;
    }
    const char *name = json_string_value(json_object_get(status, "name"));
    const char *state = json_string_value(json_object_get(status, "state"));
    add_check(checks, "health", name, node_is_healthy(node, &error) ? NULL : error.message);
    add_check(checks, "state", name, reason_of_state(state));
    add_check(checks, "lease", name,
              json_integer_value(json_object_get(status, "lease_left_us")) > 0 ? NULL : "its lease is over");
    add_check(checks, "engine", name,
              json_is_true(json_object_get(status, "engine_reachable")) ? NULL : "its engine does not answer");
    json_decref(status);
}

void answer_readiness(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct probes *probes = &api->probes;
    struct checks checks = {
        .rows = json_array(), .are_fine = true, .is_verbose = request_argument(request, "verbose") != NULL};
    checks.is_lost = checks.rows == NULL;
    if (atomic_load(&probes->is_stopping)) {
        add_check(&checks, "process", NULL, "it is stopping");
    }
    check_store_readiness(&checks, store);
    for (size_t i = 0; i < probes->node_count; i++) {
        check_node_readiness(&checks, probes->nodes[i]);
    }
    json_t *body = json_pack("{s:b, s:o}", "ready", checks.are_fine, "checks", checks.rows);
    if (checks.is_lost) {
        json_decref(body);
        body = NULL;
    }
    respond_json(answer, checks.are_fine ? 200 : 503, body);
}

void answer_metrics(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct probes *probes = &api->probes;
    struct weir_error error = {.status = WEIR_OK};
    json_t *status = NULL;
    answer->status = 200;
    answer->type = "text/plain; version=0.0.4; charset=utf-8";
    bool is_fine = metrics_render(probes->metrics, &answer->body) == WEIR_OK &&
                   http_metrics_render(&api->requests, &answer->body) == WEIR_OK;
    /* Without the store the counters of the process are all the more wanted. */
    if (is_fine && store_status(store, metrics_workspaces_most(probes->workspaces), &status, &error) == WEIR_OK) {
        is_fine = metrics_render_store(status, probes->workspaces, &answer->body) == WEIR_OK;
    }
    if (!is_fine) {
        text_clear(&answer->body);
        respond_problem(request, answer, 503, "out_of_memory", "there is no memory for the answer", NULL, NULL);
    }
    json_decref(status);
}
