/* The open store of a program: opening, borrowed handles, the events that the program receives, metrics.
 *
 * A struct weir serves all threads of the host, a store handle one thread at a time. So each public call borrows a handle
 * from a short list of idle ones, or opens another, and gives it back. The lock covers the list alone: no call of the store
 * is made under it.
 *
 * Events reach the host's function in the thread that emits them. The library never prints and never ends the process,
 * except for a broken invariant of its own (base/error.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/actor.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "library/library.h"
#include "observe/log.h"
#include "observe/span_exporter.h"

enum { JSON_TEXT_BYTES_MAX = 64 * 1024 * 1024 };

void weir_free(void *memory)
{
    free(memory);
}

enum weir_status library_give_json(json_t *value, char **ret_json, struct weir_error *error)
{
    struct text text = {.max = JSON_TEXT_BYTES_MAX};
    enum weir_status status = json_write(value, &text, error);
    json_decref(value);
    if (status != WEIR_OK) {
        text_close(&text);
        return status;
    }
    *ret_json = text.data;
    return WEIR_OK;
}

/* --- events --- */

/* The subscriber for the host: the public struct has the same fields. */
static void forward_event(void *context, const struct event *event)
{
    const struct weir *weir = context;
    struct weir_event out = {
        .level = (enum weir_event_level)event_level(event->type),
        .name = event_name(event->type),
        .message = log_message(event->type),
        .execution_id = event->execution_id,
        .workspace = event->workspace,
        .workflow = event->workflow,
        .plan = event->plan,
        .node = event->node,
        .group = event->group,
        .reason = event->reason,
        .code = event->code,
        .error = event->error,
        .fence = event->fence,
        .start_number = event->start_number,
        .count = event->count,
        .of = event->of,
        .slots_used = event->slots_used,
        .slots_max = event->slots_max,
        .duration_us = event->duration_us,
        .age_us = event->age_us,
        .slot_wait_us = event->slot_wait_us,
        .pause_wait_us = event->pause_wait_us,
        .latency_us = event->latency_us,
    };
    weir->on_event(weir->event_context, &out);
}

_Static_assert((int)WEIR_EVENT_DEBUG == (int)EVENT_DEBUG && (int)WEIR_EVENT_ERROR == (int)EVENT_ERROR,
               "levels are cast from one to the other");

/* --- opening --- */

enum weir_status weir_migrate(const char *url, int *ret_applied, struct weir_error *error)
{
    struct store *store = NULL;
    struct store_options options = {.url = url, .create = true};
    char actor[ACTOR_MAX + 1];
    enum weir_status status = store_open(&options, &store, error);
    if (status == WEIR_OK) {
        actor_write("library", actor, sizeof actor);
        status = store_act_as(store, actor, NULL, error);
    }
    if (status == WEIR_OK) {
        status = store_migrate(store, ret_applied, error);
    }
    store_close(store);
    return status;
}

static enum weir_status open_first_handle(struct weir *weir, const char *url, const struct weir_options *options,
                                          struct weir_error *error)
{
    struct store_options store_options = {
        .url = url, .read_only = options->read_only, .deadline_us = options->deadline_us, .events = &weir->events};
    enum weir_status status = store_open(&store_options, &weir->store, error);
    if (status == WEIR_OK && options->actor != NULL) {
        status = store_act_as(weir->store, options->actor, NULL, error); /* checks it; this handle itself does no act */
    }
    if (status == WEIR_OK && (store_features(weir->store) & STORE_IS_SERVER) != 0) {
        weir->server_url = strdup(url);
        status = weir->server_url == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    if (options->actor != NULL) {
        text_copy(weir->actor, sizeof weir->actor, options->actor);
    } else {
        actor_write("library", weir->actor, sizeof weir->actor);
    }
    return status == WEIR_OK ? store_require_schema(weir->store, error) : status;
}

/* The handle that others are opened from makes no call, so it needs no connection: the first one becomes an idle handle. */
static enum weir_status keep_first_handle(struct weir *weir, struct weir_error *error)
{
    struct store *source = NULL;
    enum weir_status status = store_open_again(weir->store, &source, error);
    if (status == WEIR_OK) {
        weir->idle[weir->idle_count++] = weir->store;
        weir->store = source;
    }
    return status;
}

/* Before the first event: the exporter is a subscriber. */
static enum weir_status open_exporter(struct weir *weir, const struct weir_options *options, struct weir_error *error)
{
    double sample = options->otel_sample;
    weir->spans_ratio = sample == 0 || sample > 1 ? 1 : sample < 0 ? 0 : sample;
    struct span_exporter_options exporter = {
        .endpoint = options->otel_endpoint, .ratio = weir->spans_ratio, .events = &weir->events};
    return options->otel_endpoint == NULL ? WEIR_OK : span_exporter_open(&exporter, &weir->exporter, error);
}

enum weir_status weir_open(const char *url, const struct weir_options *options, struct weir **ret_weir,
                           struct weir_error *error)
{
    static const struct weir_options defaults;
    if (url == NULL || ret_weir == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_open needs a URL and a place for its answer");
    }
    if (options == NULL) {
        options = &defaults;
    }
    struct weir *weir = calloc(1, sizeof *weir);
    if (weir == NULL) {
        return error_out_of_memory(error);
    }
    (void)pthread_mutex_init(&weir->lock, NULL);
    weir->on_event = options->on_event;
    weir->event_context = options->event_context;
    enum weir_status status = metrics_open(&weir->metrics, error);
    if (status == WEIR_OK) {
        (void)event_subscribe(&weir->events, metrics_event, weir->metrics);
        if (weir->on_event != NULL) {
            (void)event_subscribe(&weir->events, forward_event, weir);
        }
        status = open_exporter(weir, options, error);
    }
    if (status == WEIR_OK) {
        status = open_first_handle(weir, url, options, error);
    }
    if (status == WEIR_OK) {
        status = keep_first_handle(weir, error);
    }
    if (status != WEIR_OK) {
        weir_close(weir);
        return status;
    }
    *ret_weir = weir;
    return WEIR_OK;
}

void weir_close(struct weir *weir)
{
    if (weir == NULL) {
        return;
    }
    for (size_t i = 0; i < weir->idle_count; i++) {
        store_close(weir->idle[i]);
    }
    store_close(weir->store);
    span_exporter_close(weir->exporter); /* behind the last event */
    metrics_close(weir->metrics);
    free(weir->server_url);
    (void)pthread_mutex_destroy(&weir->lock);
    free(weir);
}

/* --- handles --- */

enum weir_status handle_borrow(struct weir *weir, struct store **ret_handle, struct weir_error *error)
{
    if (weir == NULL) {
        return error_set(error, WEIR_MISUSE, "the call needs an open store");
    }
    struct store *handle = NULL;
    (void)pthread_mutex_lock(&weir->lock);
    if (weir->idle_count > 0) {
        weir->idle_count--;
        handle = weir->idle[weir->idle_count];
    }
    (void)pthread_mutex_unlock(&weir->lock);
    if (handle == NULL) {
        return store_open_again(weir->store, ret_handle, error);
    }
    *ret_handle = handle;
    return WEIR_OK;
}

/* The idle handles are shared, so each act names its actor and its reason anew: those of the act before must not stay. */
enum weir_status handle_borrow_to_act(struct weir *weir, const char *reason, struct store **ret_handle,
                                      struct weir_error *error)
{
    struct store *handle = NULL;
    enum weir_status status = handle_borrow(weir, &handle, error);
    if (status == WEIR_OK) {
        status = store_act_as(handle, weir->actor, reason, error);
    }
    if (status != WEIR_OK && handle != NULL) {
        handle_give_back(weir, handle);
        return status;
    }
    *ret_handle = handle;
    return status;
}

void handle_give_back(struct weir *weir, struct store *handle)
{
    INVARIANT(handle != NULL);
    (void)pthread_mutex_lock(&weir->lock);
    if (weir->idle_count < IDLE_HANDLES_MAX) {
        weir->idle[weir->idle_count] = handle;
        weir->idle_count++;
        handle = NULL;
    }
    (void)pthread_mutex_unlock(&weir->lock);
    store_close(handle);
}

/* --- metrics --- */

enum weir_status weir_metrics(struct weir *weir, char **ret_text, struct weir_error *error)
{
    struct store *handle = NULL;
    json_t *answer = NULL;
    struct text text = {.max = METRICS_TEXT_BYTES_MAX};
    enum weir_status status = handle_borrow(weir, &handle, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = store_status(handle, METRICS_WORKSPACES_MAX, &answer, error);
    handle_give_back(weir, handle);
    if (status != WEIR_OK) {
        return status;
    }
    status = metrics_render(weir->metrics, &text);
    if (status == WEIR_OK) {
        status = metrics_render_store(answer, METRICS_WORKSPACES_TOP, &text);
    }
    json_decref(answer);
    if (status != WEIR_OK) {
        text_close(&text);
        return error_set(error, status, "the metrics do not fit in %d bytes", METRICS_TEXT_BYTES_MAX);
    }
    *ret_text = text.data;
    return WEIR_OK;
}
