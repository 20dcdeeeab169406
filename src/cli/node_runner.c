/* Runs the nodes of one process for serve, dev and demo.
 *
 * The order of the start matters. The engines open first, because each forks its keeper, and a keeper must be forked
 * while the process has one thread and no open store. The log and the store follow, then the nodes with their threads.
 *
 * While the nodes run, the main thread polls once a second: a signal, a failed node, a reload, the watchdog of the
 * service manager. To stop, it orders all nodes to stop, waits for running executions up to stop.grace, and then
 * interrupts them; a further signal interrupts them at once. Executions that no store call could give back are reported:
 * their lease ends them.
 *
 * It never runs an execution itself, and it never touches the store while the nodes run. Runs in the main thread.
 */
#include "cli/node_runner.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "assemble.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file_limit.h"
#include "base/shell_quote.h"
#include "cli/output/json_fields.h"
#include "cli/output/output.h"
#include "cli/sd_notify.h"
#include "cli/settings/reload.h"
#include "cli/settings/temporal_settings.h"
#include "cli/signals.h"
#include "cli/verbs/signal_execution.h"
#include "server/bulk_jobs.h"
#include "server/oidc.h"
#include "server/stream_hub.h"

/* The period of the checks. A signal ends the wait earlier. A drained node or a failed loop does not, so the process
 * ends at most this much later. Each check wakes an idle machine. */
#define HEALTH_INTERVAL_US MICROSECONDS_PER_SECOND
#define STOP_CHECK_US (100 * MICROSECONDS_PER_MS)
#define HTTP_LISTEN_DEFAULT "127.0.0.1:7717"
#define HTTP_LISTEN_NONE "none" /* for `dev` and `demo`, which listen without a setting */
enum { RELOAD_MEMORY_MAX = 16 * 1024 * 1024 };
/* The node kills its executions and gives them back within this time, unless the store does not answer. */
#define INTERRUPT_DEADLINE_US (15 * MICROSECONDS_PER_SECOND)

/* --- opening --- */

/* A node holds the store's password and params of customers. Its steps run as the same user, so they must not be able to
 * read its memory or its environment, and no core file may hold them. The guard ends before the process does, for tools
 * that inspect a process at its exit (leak detection). */
static void guard_memory(bool guard)
{
    (void)prctl(PR_SET_DUMPABLE, guard ? 0 : 1, 0, 0, 0);
}

/* The hosts and networks that http steps may reach; NULL: none. */
static const char *const *http_allow_list(const struct settings *settings, bool is_open)
{
    static const char *const everything[] = {"*", "::/0", NULL}; /* as programs may, which are open then */
    static const char *const public_addresses[] = {"*", NULL};
    if (settings_number(settings, SETTING_HTTP_STEP_ALLOW) == 0) {
        return is_open ? everything : NULL;
    }
    const char *const *list = settings_list(settings, SETTING_HTTP_STEP_ALLOW);
    return list == NULL ? public_addresses : list;
}

static bool has_capacity_of_workers(const struct running_node *running)
{
    return strcmp(settings_text(&running->settings, SETTING_EXECUTOR_CAPACITY), "workers") == 0;
}

static enum weir_status open_engine_of_node(struct running_node *running, bool open_exec, struct weir_error *error)
{
    const struct settings *settings = &running->settings;
    struct temporal_options temporal;
    struct in_process_options in_process = {
        .max_running = (size_t)settings_number(settings, SETTING_EXECUTOR_MAX_RUNNING),
        .handler_threads = (size_t)settings_number(settings, SETTING_EXECUTOR_HANDLER_THREADS),
        .max_parallel_steps = (size_t)settings_number(settings, SETTING_EXECUTOR_MAX_PARALLEL_STEPS),
        .park_after_us = settings_number(settings, SETTING_EXECUTOR_PARK_AFTER),
        .allow_exec = open_exec || settings_number(settings, SETTING_EXEC_ALLOW) != 0,
        .exec_unguarded = settings_number(settings, SETTING_EXEC_GUARD) == 0,
        .env_from_list = settings_list(settings, SETTING_EXEC_ENV_FROM),
        .secrets_directory = settings_text(settings, SETTING_SECRETS_DIRECTORY),
        .exec_allow_list = open_exec ? NULL : settings_list(settings, SETTING_EXEC_ALLOW),
        .http_allow_list = http_allow_list(settings, open_exec),
        .callback_address = settings_text(settings, SETTING_HTTP_STEP_CALLBACK_ADDRESS),
    };
    temporal_settings_read(settings, &temporal);
    struct engine_options options = {.in_process = &in_process, .temporal = &temporal};
    enum weir_status status = assemble_engine(settings_text(settings, SETTING_ENGINE), &options, &running->engine, error);
    if (status == WEIR_OK && has_capacity_of_workers(running)) {
        engine_bound(running->engine, 0); /* until its hub knows a worker */
    }
    return status;
}

/* Gives each of several nodes a name: its own, or the name of the process followed by its group. A name that is too long is
 * refused and not cut: the shorter one may be the name of another node. */
static enum weir_status name_node(struct node_runner *runner, struct settings *settings, bool is_own,
                                  struct weir_error *error)
{
    char name[NODE_NAME_MAX + 1 + GROUP_NAME_MAX + 1];
    const char *base = settings_text(settings, SETTING_NODE_NAME);
    const char *group = settings_text(settings, SETTING_EXECUTOR_GROUP);
    if (is_own || base[0] == '\0') {
        return WEIR_OK; /* without any name the node makes one in the same way */
    }
    (void)snprintf(name, sizeof name, "%s-%s", base, group);
    return settings_set(settings, SETTING_NODE_NAME, name, runner->invocation->settings->values[SETTING_NODE_NAME].origin,
                        error);
}

/* Chooses the entries of `nodes` that this process runs. */
static enum weir_status choose_nodes(struct node_runner *runner, const struct node_runner_options *options,
                                     struct weir_error *error)
{
    const struct settings *all = runner->invocation->settings;
    const char *only = options->group;
    if (options->one_node || all->node_count == 0) {
        runner->nodes[runner->count++].settings = settings_of_group(all, NULL);
        return WEIR_OK;
    }
    for (size_t i = 0; i < all->node_count; i++) {
        struct settings settings = settings_of_node(all, i);
        bool is_own = all->nodes[i].values[SETTING_NODE_NAME].text != NULL;
        if (only == NULL || strcmp(settings_text(&settings, SETTING_EXECUTOR_GROUP), only) == 0) {
            enum weir_status status = name_node(runner, &settings, is_own, error);
            if (status != WEIR_OK) {
                return status;
            }
            runner->nodes[runner->count++].settings = settings;
        }
    }
    if (runner->count == 0) {
        error_set(error, WEIR_INVALID_CONFIG, "none of the %zu `nodes` serves the group \"%s\"", all->node_count, only);
        error_hint(error, "`weir config show` lists them; --config names another file");
        return WEIR_INVALID_CONFIG;
    }
    return WEIR_OK;
}

static void open_runner_log(struct node_runner *runner, int fd)
{
    const struct settings *settings = runner->invocation->settings;
    struct log_options options = {.fd = fd};
    if (fd >= 0) {
        bool known = log_format_parse(settings_text(settings, SETTING_LOG_FORMAT), &options.format) &&
                     log_level_parse(settings_text(settings, SETTING_LOG_LEVEL), &options.least);
        INVARIANT(known); /* settings_set() has checked both */
        log_init(&runner->log, &options);
        runner->has_log = true;
        (void)event_subscribe(&runner->events, log_event, &runner->log);
    }
}

static enum weir_status open_runner_store(struct node_runner *runner, const struct node_runner_options *options,
                                          struct weir_error *error)
{
    struct store_options store_options = {
        .url = options->store_url, .create = options->create_store, .events = &runner->events};
    enum weir_status status = store_open(&store_options, &runner->store, error);
    if (status == WEIR_STORE_UNREACHABLE && error->hint[0] == '\0') {
        char url[128];
        store_url_shown(options->store_url, url, sizeof url);
        char word[SHELL_WORD_MAX];
        error_hint(error, "make it with: weir store init --store %s; or try `weir dev`", shell_quote(url, word));
    }
    if (status == WEIR_OK && options->create_store) {
        status = store_migrate(runner->store, NULL, error);
    } else if (status == WEIR_OK) {
        status = store_require_schema(runner->store, error);
    }
    return status;
}

/* api_signal: the settings of the start count, also after a reload. */
static enum weir_status signal_for_api(const void *context, struct store *store, const json_t *execution,
                                       const struct signal_request *request, struct sent_signal *ret_sent,
                                       struct weir_error *error)
{
    return signal_execution(context, store, execution, request, ret_sent, error);
}

/* The set of tokens is read before the first request. */
static enum weir_status open_runner_access(struct node_runner *runner, bool is_anonymous, struct weir_error *error)
{
    const struct access_options options = {
        .is_anonymous = is_anonymous || settings_number(runner->settings, SETTING_HTTP_ANONYMOUS) != 0,
        .is_closed = settings_text(runner->settings, SETTING_HTTP_OIDC_ISSUER)[0] != '\0',
        .rate = settings_number(runner->settings, SETTING_HTTP_RATE)};
    enum weir_status status = access_open(&options, &runner->api.access, error);
    return status == WEIR_OK ? access_start(runner->api.access, runner->store, error) : status;
}

static enum weir_status open_runner_oidc(struct node_runner *runner, struct weir_error *error)
{
    const struct settings *settings = runner->settings;
    const struct oidc_options options = {
        .issuer = settings_text(settings, SETTING_HTTP_OIDC_ISSUER),
        .client_id = settings_text(settings, SETTING_HTTP_OIDC_CLIENT_ID),
        .client_secret_file = settings_text(settings, SETTING_HTTP_OIDC_CLIENT_SECRET_FILE),
        .redirect_url = settings_text(settings, SETTING_HTTP_OIDC_REDIRECT_URL),
        .scopes = settings_text(settings, SETTING_HTTP_OIDC_SCOPES),
        .groups_claim = settings_text(settings, SETTING_HTTP_OIDC_GROUPS_CLAIM),
        .groups = settings_text(settings, SETTING_HTTP_OIDC_GROUPS),
        .person_claim = settings_text(settings, SETTING_HTTP_OIDC_PERSON_CLAIM),
        .name = settings_text(settings, SETTING_HTTP_OIDC_NAME),
        .ca_file = settings_text(settings, SETTING_HTTP_OIDC_CA_FILE),
        .session_us = settings_number(settings, SETTING_HTTP_OIDC_SESSION),
        .max_body_bytes = settings_number(settings, SETTING_HTTP_OIDC_MAX_BODY_BYTES),
    };
    return oidc_open(&options, &runner->api.oidc, error);
}

/* An address that nobody asked for must not end the start: another `weir dev` may have it. */
static enum weir_status open_runner_server(struct node_runner *runner, bool is_offer, bool is_anonymous,
                                           struct weir_error *error)
{
    const struct settings *settings = runner->settings;
    const char *listen = settings_text(settings, SETTING_HTTP_LISTEN);
    if (strcmp(listen, HTTP_LISTEN_NONE) == 0) {
        return WEIR_OK;
    }
    is_offer = is_offer && listen[0] == '\0';
    struct http_server_options options = {
        .listen = is_offer ? HTTP_LISTEN_DEFAULT : listen,
        .certificate_file = settings_text(settings, SETTING_HTTP_TLS_CERTIFICATE_FILE),
        .key_file = settings_text(settings, SETTING_HTTP_TLS_KEY_FILE),
        .behind_proxy = settings_number(settings, SETTING_HTTP_BEHIND_PROXY) != 0,
    };
    if (options.listen[0] == '\0') {
        return WEIR_OK;
    }
    runner->api.signal = signal_for_api;
    runner->api.signal_context = runner->invocation;
    runner->api.has_dashboard = settings_number(settings, SETTING_HTTP_DASHBOARD) != 0;
    enum weir_status status = embed_policy_read(settings_text(settings, SETTING_HTTP_EMBED_ORIGINS),
                                                runner->api.embed_policy, sizeof runner->api.embed_policy, error);
    if (status == WEIR_OK) {
        runner->api.bulk = bulk_jobs_open();
        status = runner->api.bulk == NULL ? error_out_of_memory(error) : open_runner_access(runner, is_anonymous, error);
    }
    if (status == WEIR_OK) {
        status = open_runner_oidc(runner, error);
    }
    if (status == WEIR_OK) {
        status =
            stream_hub_open(runner->api.access, runner->store, &runner->api.requests.streams, &runner->api.streams, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = http_server_open(&options, runner->store, &runner->api, &runner->server, error);
    if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY && is_offer) {
        text_copy(runner->no_http, sizeof runner->no_http, error == NULL ? "it cannot be served" : error->message);
        error_clear(error);
        return WEIR_OK;
    }
    return status;
}

/* Before the first event: the metrics are a subscriber. */
static enum weir_status open_runner_metrics(struct node_runner *runner, bool is_offer, struct weir_error *error)
{
    const char *listen = settings_text(runner->settings, SETTING_HTTP_LISTEN);
    if (strcmp(listen, HTTP_LISTEN_NONE) == 0 || (!is_offer && listen[0] == '\0')) {
        return WEIR_OK;
    }
    bool known = metrics_workspaces_parse(settings_text(runner->settings, SETTING_METRICS_WORKSPACES),
                                          &runner->api.probes.workspaces);
    INVARIANT(known); /* settings_set() has checked it */
    enum weir_status status = metrics_open(&runner->api.probes.metrics, error);
    if (status == WEIR_OK) {
        (void)event_subscribe(&runner->events, metrics_event, runner->api.probes.metrics);
    }
    return status;
}

/* The part of the executions without a trace of their caller that is traced. */
static double sample_ratio(const struct settings *settings)
{
    return (double)settings_number(settings, SETTING_OTEL_SAMPLE) / SETTING_RATIO_ONE;
}

/* Before the first event as well. */
static enum weir_status open_runner_exporter(struct node_runner *runner, struct weir_error *error)
{
    struct span_exporter_options options = {.endpoint = settings_text(runner->settings, SETTING_OTEL_ENDPOINT),
                                            .ratio = sample_ratio(runner->settings),
                                            .events = &runner->events};
    return options.endpoint[0] == '\0' ? WEIR_OK : span_exporter_open(&options, &runner->exporter, error);
}

static enum weir_status check_capacity(const struct node_runner *runner, struct weir_error *error)
{
    for (size_t i = 0; i < runner->count; i++) {
        const struct running_node *running = &runner->nodes[i];
        bool has_workers = runner->server != NULL && engine_has(running->engine, ENGINE_RECORDS_STEPS);
        if (has_capacity_of_workers(running) && !has_workers) {
            return error_set(error, WEIR_INVALID_ARGUMENT,
                             "`executor.capacity: workers` needs %s, or the node runs nothing",
                             runner->server == NULL ? "an address for its workers (--listen)" : "the in-process engine");
        }
    }
    return WEIR_OK;
}

enum weir_status node_runner_open(struct node_runner *runner, const struct invocation *invocation,
                                  const struct node_runner_options *options, struct weir_error *error)
{
    *runner = (struct node_runner){.invocation = invocation, .settings = invocation->settings};
    for (size_t i = 0; i < 2; i++) {
        arena_init(&runner->reload_arenas[i], RELOAD_MEMORY_MAX);
    }
    signals_catch();
    guard_memory(true);
    file_limit_raise();
    enum weir_status status = choose_nodes(runner, options, error);
    for (size_t i = 0; i < runner->count && status == WEIR_OK; i++) {
        status = open_engine_of_node(&runner->nodes[i], options->open_exec, error);
    }
    if (status == WEIR_OK) {
        open_runner_log(runner, options->log_fd);
        status = open_runner_metrics(runner, options->opens_http, error);
    }
    if (status == WEIR_OK) {
        status = open_runner_exporter(runner, error);
    }
    if (status == WEIR_OK) {
        status = open_runner_store(runner, options, error);
    }
    if (status == WEIR_OK) {
        status = open_runner_server(runner, options->opens_http, options->is_anonymous, error);
    }
    return status == WEIR_OK ? check_capacity(runner, error) : status;
}

static struct node_settings node_settings_of(const struct running_node *running)
{
    const struct settings *settings = &running->settings;
    return (struct node_settings){
        .name = settings_text_or_null(settings, SETTING_NODE_NAME),
        .group = settings_text_or_null(settings, SETTING_EXECUTOR_GROUP),
        .language = "HTTP", /* that of its handlers: all come from workers over HTTP (server/task_service.h) */
        .batch_size = (size_t)settings_number(settings, SETTING_DISPATCH_BATCH_SIZE),
        .poll_interval_us = settings_number(settings, SETTING_DISPATCH_POLL_INTERVAL),
        .lease_us = settings_number(settings, SETTING_NODE_LEASE),
        .stuck_after_us = settings_number(settings, SETTING_EXECUTOR_STUCK_AFTER),
        .stale_claim_us = settings_number(settings, SETTING_CLAIM_TIMEOUT),
        .stale_check_us = settings_number(settings, SETTING_RECOVERY_INTERVAL),
        .retention_us = settings_number(settings, SETTING_RETENTION),
        .log_retention_us = settings_number(settings, SETTING_LOGS_RETENTION),
        .audit_retention_us = settings_number(settings, SETTING_AUDIT_RETENTION),
        .archive_after_us = settings_number(settings, SETTING_ARCHIVE_AFTER),
        .log_bytes_max = settings_number(settings, SETTING_LOGS_ATTEMPT_BYTES) == 0
                             ? -1
                             : settings_number(settings, SETTING_LOGS_ATTEMPT_BYTES),
        .stop_grace_us = settings_number(settings, SETTING_STOP_GRACE),
        .starts_max = (int)settings_number(settings, SETTING_STARTS_MAX),
        .exclusive = settings_number(settings, SETTING_DISPATCH_EXCLUSIVE) != 0,
        .starts_paused = settings_number(settings, SETTING_DISPATCH_AUTOSTART) == 0,
        .exports_spans = settings_text(settings, SETTING_OTEL_ENDPOINT)[0] != '\0',
        .spans_ratio = sample_ratio(settings),
    };
}

static enum weir_status start_node(struct node_runner *runner, struct running_node *running, struct weir_error *error)
{
    struct node_settings node_settings = node_settings_of(running);
    enum weir_status status =
        node_open(runner->store, running->engine, &runner->events, &node_settings, &running->node, error);
    return status == WEIR_OK ? node_run_threads(running->node, error) : status;
}

/* Only a process that listens has workers. */
static enum weir_status start_tasks(struct node_runner *runner, const struct running_node *running,
                                    struct weir_error *error)
{
    _Static_assert((int)TASK_SERVICES_MAX >= (int)SETTINGS_NODES_MAX, "each node has one");
    if (runner->server == NULL) {
        return WEIR_OK;
    }
    return task_service_open(&runner->api.task_services[runner->api.task_service_count++],
                             settings_text(&running->settings, SETTING_EXECUTOR_GROUP),
                             settings_number(runner->settings, SETTING_HTTP_TASK_LEASE), has_capacity_of_workers(running),
                             running->engine, running->node, error);
}

/* The first address that a browser can open: no file, and in the place of all addresses of the machine its name. That of a
 * proxy is not known here. */
static void report_dashboard(struct output *output, const char *addresses)
{
    char host[256] = "localhost";
    const char *at = addresses;
    while (strncmp(at, "unix:", strlen("unix:")) == 0) {
        at += strcspn(at, ",");
        at += strspn(at, ", ");
    }
    bool has_tls = strncmp(at, "https://", strlen("https://")) == 0;
    at += has_tls ? strlen("https://") : 0;
    size_t length = strcspn(at, ",");
    bool is_any = strncmp(at, "0.0.0.0:", strlen("0.0.0.0:")) == 0 || strncmp(at, "[::]:", strlen("[::]:")) == 0;
    if (is_any) {
        size_t address = strcspn(at, "]") < length ? strcspn(at, "]") + 1 : strcspn(at, ":");
        at += address;
        length -= address;
        (void)gethostname(host, sizeof host - 1);
    }
    if (length > 0) {
        output_report(output, "dashboard: http%s://%s%.*s/", has_tls ? "s" : "", is_any ? host : "", (int)length, at);
    }
}

void node_runner_report_http(const struct node_runner *runner)
{
    struct output *output = runner->invocation->output;
    if (runner->server != NULL) {
        const char *addresses = http_server_addresses(runner->server);
        output_report(output, "http at %s: /livez, /readyz, /metrics, /v1, /docs", addresses);
        if (runner->api.has_dashboard && settings_number(runner->settings, SETTING_HTTP_BEHIND_PROXY) == 0) {
            report_dashboard(output, addresses);
        }
    } else if (runner->no_http[0] != '\0') {
        output_report(output, "no HTTP: %s (--listen chooses another address, or none)", runner->no_http);
    }
}

enum weir_status node_runner_start(struct node_runner *runner, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < runner->count && status == WEIR_OK; i++) {
        status = start_node(runner, &runner->nodes[i], error);
        if (status == WEIR_OK) {
            status = start_tasks(runner, &runner->nodes[i], error);
        }
        runner->api.probes.nodes[runner->api.probes.node_count++] = runner->nodes[i].node;
    }
    return status == WEIR_OK && runner->server != NULL ? http_server_start(runner->server, error) : status;
}

/* --- while they run --- */

bool node_runner_is_healthy(const struct node_runner *runner, struct weir_error *error)
{
    for (size_t i = 0; i < runner->count; i++) {
        if (!node_is_healthy(runner->nodes[i].node, error)) {
            if (error->status == WEIR_OK) {
                (void)error_set(error, WEIR_STOPPED, "the node cannot continue");
            }
            return false;
        }
    }
    return true;
}

static bool all_are_stopped(const struct node_runner *runner)
{
    size_t stopped = 0;
    for (size_t i = 0; i < runner->count; i++) {
        stopped += node_is_stopped(runner->nodes[i].node);
    }
    return stopped == runner->count;
}

static void tune_log(struct node_runner *runner, const struct settings *settings, bool only_if_more)
{
    enum log_format format;
    enum event_level least;
    bool known = log_format_parse(settings_text(settings, SETTING_LOG_FORMAT), &format) &&
                 log_level_parse(settings_text(settings, SETTING_LOG_LEVEL), &least);
    INVARIANT(known); /* settings_set() has checked both */
    if (runner->has_log && !(only_if_more && least >= runner->log.least)) {
        log_tune(&runner->log, format, least);
    }
}

/* Applies reloaded settings. The log reports the changes by the more detailed of its old and new levels. */
static void apply_reloaded(struct node_runner *runner, struct settings *fresh)
{
    tune_log(runner, fresh, true);
    size_t changed = reload_report(runner->invocation->settings, runner->settings, fresh, &runner->events);
    runner->reloaded = *fresh;
    runner->settings = &runner->reloaded;
    for (size_t i = 0; i < runner->count; i++) {
        struct running_node *running = &runner->nodes[i];
        changed += reload_node(&running->settings, runner->settings, &runner->events);
        struct node_settings node_settings = node_settings_of(running);
        node_tune(running->node, &node_settings);
    }
    struct event event = {.type = EVENT_SETTINGS_RELOADED, .count = (int64_t)changed};
    event_emit(&runner->events, &event);
    tune_log(runner, runner->settings, false);
}

static void reload_settings(struct node_runner *runner)
{
    struct weir_error error = {.status = WEIR_OK};
    struct settings fresh;
    struct arena *unused = &runner->reload_arenas[1];
    const char *config_file = invocation_text(runner->invocation, "config");
    sd_notify_reloading();
    enum weir_status status = reload_read(runner->invocation->settings, config_file, unused, &fresh, &error);
    if (status == WEIR_OK) {
        struct arena last = runner->reload_arenas[0];
        apply_reloaded(runner, &fresh);
        runner->reload_arenas[0] = *unused;
        *unused = last;
    } else {
        struct event event = {.type = EVENT_SETTINGS_REFUSED, .code = weir_status_name(status), .error = error.message};
        event_emit(&runner->events, &event);
    }
    arena_reset(unused);
    if (runner->server != NULL) {
        status = http_server_reload(runner->server, &error);
    }
    if (runner->server != NULL && status == WEIR_OK) {
        stream_hub_cut(runner->api.streams); /* connections with the certificate before are to end */
    }
    if (runner->server != NULL && status != WEIR_OK) {
        struct event event = {.type = EVENT_CERTIFICATE_REFUSED, .code = weir_status_name(status), .error = error.message};
        event_emit(&runner->events, &event);
    }
    sd_notify_send("READY=1");
}

enum weir_status node_runner_await(struct node_runner *runner, struct weir_error *error)
{
    int64_t watchdog_us = sd_notify_watchdog_us();
    int64_t check_us = watchdog_us > 0 && watchdog_us < HEALTH_INTERVAL_US ? watchdog_us : HEALTH_INTERVAL_US;
    int64_t watched_us = 0;
    while (signals_count() == 0 && !all_are_stopped(runner)) {
        if (!node_runner_is_healthy(runner, error)) {
            return error->status;
        }
        if (signals_take_reload()) {
            reload_settings(runner);
        }
        int64_t now_us = clock_boot(clock_system());
        if (watchdog_us > 0 && now_us - watched_us >= watchdog_us) {
            sd_notify_send("WATCHDOG=1");
            watched_us = now_us;
        }
        signals_sleep(check_us);
    }
    return WEIR_OK;
}

/* --- the end --- */

static int64_t count_running(const struct node_runner *runner)
{
    int64_t running = 0;
    for (size_t i = 0; i < runner->count; i++) {
        json_t *status = node_status(runner->nodes[i].node);
        running += field_number(status, "running", 0);
        json_decref(status);
    }
    return running;
}

static void report_awaited(const struct node_runner *runner, int64_t running)
{
    char grace[DURATION_TEXT_MAX];
    duration_format(settings_number(runner->settings, SETTING_STOP_GRACE), grace);
    output_report(runner->invocation->output,
                  "stopping: waiting up to %s for %" PRId64 " running execution%s; a second signal interrupts", grace,
                  running, running == 1 ? "" : "s");
}

static void begin_nodes_stop(struct node_runner *runner, enum node_stop_kind kind)
{
    for (size_t i = 0; i < runner->count; i++) {
        node_begin_stop(runner->nodes[i].node, kind);
    }
}

/* Until all have stopped, `deadline_us` for them together. *ret_graceful: whether none had to be interrupted. */
static enum weir_status await_nodes_stop(struct node_runner *runner, int64_t deadline_us, bool *ret_graceful,
                                         struct weir_error *error)
{
    int64_t until_us = clock_boot(clock_system()) + deadline_us;
    bool all_graceful = true;
    for (size_t i = 0; i < runner->count; i++) {
        bool graceful = true;
        int64_t left_us = until_us - clock_boot(clock_system());
        enum weir_status status = node_await_stop(runner->nodes[i].node, left_us > 0 ? left_us : 0, &graceful, error);
        if (status != WEIR_OK) {
            return status;
        }
        all_graceful = all_graceful && graceful;
    }
    *ret_graceful = all_graceful;
    return WEIR_OK;
}

/* Reports executions that were not given back, because the store was unreachable. */
static enum weir_status refuse_left_behind(const struct node_runner *runner, struct weir_error *error)
{
    size_t left = 0;
    for (size_t i = 0; i < runner->count; i++) {
        left += node_left_behind(runner->nodes[i].node);
    }
    if (left == 0) {
        return WEIR_OK;
    }
    return error_set(
        error, WEIR_STORE_UNREACHABLE,
        "the store is unreachable: %zu execution%s could not be given back, and %s handed over when the lease ends", left,
        left == 1 ? "" : "s", left == 1 ? "is" : "are");
}

static enum weir_status interrupt_nodes(struct node_runner *runner, bool by_signal, struct weir_error *error)
{
    bool graceful = false;
    begin_nodes_stop(runner, NODE_STOP_INTERRUPT);
    enum weir_status status = await_nodes_stop(runner, INTERRUPT_DEADLINE_US, &graceful, error);
    if (status == WEIR_OK) {
        status = refuse_left_behind(runner, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (by_signal) {
        return error_set(error, WEIR_INTERRUPTED,
                         "interrupted: running executions were stopped and given back to the queue");
    }
    return error_set(error, WEIR_FAILED, "stop.grace is over: running executions were stopped and given back to the queue");
}

enum weir_status node_runner_stop(struct node_runner *runner, struct weir_error *error)
{
    int64_t grace_us = settings_number(runner->settings, SETTING_STOP_GRACE);
    int64_t until_us = clock_boot(clock_system()) + grace_us;
    int64_t reported = 0;
    bool graceful = true;
    int signals_seen = signals_count();
    sd_notify_send("STOPPING=1");
    atomic_store(&runner->api.probes.is_stopping, true);
    begin_nodes_stop(runner, NODE_STOP_GRACEFUL);
    for (;;) {
        enum weir_status status = await_nodes_stop(runner, STOP_CHECK_US, &graceful, error);
        if (status == WEIR_OK && refuse_left_behind(runner, error) != WEIR_OK) {
            return error->status;
        }
        if (status == WEIR_OK) {
            return graceful ? WEIR_OK
                            : error_set(error, WEIR_FAILED,
                                        "stop.grace is over: running executions were given back to the queue");
        }
        if (status != WEIR_TIMED_OUT) {
            return status;
        }
        if (signals_count() > signals_seen) {
            return interrupt_nodes(runner, true, error);
        }
        if (clock_boot(clock_system()) >= until_us) {
            return interrupt_nodes(runner, false, error);
        }
        int64_t running = count_running(runner);
        if (running > 0 && running != reported) {
            report_awaited(runner, running);
            reported = running;
        }
    }
}

void node_runner_close(struct node_runner *runner)
{
    for (size_t i = 0; i < runner->api.task_service_count; i++) {
        task_service_stop(&runner->api.task_services[i]); /* before the server: claims wait in it */
    }
    oidc_end(runner->api.oidc);          /* as well: browsers wait in it */
    stream_hub_end(runner->api.streams); /* their connections sleep */
    http_server_close(runner->server);   /* before the nodes: it reads them */
    stream_hub_close(runner->api.streams);
    oidc_close(runner->api.oidc);
    access_close(runner->api.access);
    bulk_jobs_close(runner->api.bulk);
    for (size_t i = 0; i < runner->count; i++) {
        node_close(runner->nodes[i].node);
        engine_close(runner->nodes[i].engine);
    }
    for (size_t i = 0; i < runner->api.task_service_count; i++) {
        task_service_close(&runner->api.task_services[i]);
    }
    store_close(runner->store);
    span_exporter_close(runner->exporter); /* behind the last event of nodes and store; it still logs */
    if (runner->has_log) {
        log_close(&runner->log);
    }
    metrics_close(runner->api.probes.metrics);
    guard_memory(false);
    for (size_t i = 0; i < 2; i++) {
        arena_close(&runner->reload_arenas[i]);
    }
}
