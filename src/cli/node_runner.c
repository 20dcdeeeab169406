#include "cli/node_runner.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "assemble.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/fields.h"
#include "cli/interrupt.h"
#include "cli/reload.h"
#include "cli/service_notice.h"
#include "cli/temporal_settings.h"

#define HEALTH_INTERVAL_US (250 * MICROSECONDS_PER_MS)
#define STOP_LOOK_US (100 * MICROSECONDS_PER_MS)
/* What runs is killed and given back within this, or the store does not answer. */
enum { RELOAD_MEMORY_MAX = 16 * 1024 * 1024 };
#define INTERRUPT_DEADLINE_US (15 * MICROSECONDS_PER_SECOND)

/* --- opening --- */

/* A node knows the store's password and params of customers. Its steps run as the same user: they shall not read its memory
 * or its environment, and no core shall hold them. At the end it is as before, for tools that look at a process that leaves
 * (leak detection). */
static void guard_memory(bool guard)
{
    (void)prctl(PR_SET_DUMPABLE, guard ? 0 : 1, 0, 0, 0);
}

static enum weir_status open_engine(struct node_runner *runner, bool open_exec, struct weir_error *error)
{
    const struct settings *settings = runner->invocation->settings;
    struct temporal_options temporal;
    struct in_process_options in_process = {
        .max_running = (size_t)settings_number(settings, SETTING_EXECUTOR_MAX_RUNNING),
        .handler_threads = (size_t)settings_number(settings, SETTING_EXECUTOR_HANDLER_THREADS),
        .allow_exec = open_exec || settings_number(settings, SETTING_EXEC_ALLOW) != 0,
        .exec_allow_list = open_exec ? NULL : settings_list(settings, SETTING_EXEC_ALLOW),
    };
    temporal_settings_read(settings, &temporal);
    struct engine_options options = {.in_process = &in_process, .temporal = &temporal};
    return assemble_engine(settings_text(settings, SETTING_ENGINE), &options, &runner->engine, error);
}

static void open_log(struct node_runner *runner, int fd)
{
    const struct settings *settings = runner->invocation->settings;
    struct log_options options = {.fd = fd};
    if (fd >= 0) {
        bool known = log_format_parse(settings_text(settings, SETTING_LOG_FORMAT), &options.format) &&
                     log_level_parse(settings_text(settings, SETTING_LOG_LEVEL), &options.least);
        INVARIANT(known); /* settings allow no other words */
        log_init(&runner->log, &options);
        runner->has_log = true;
        (void)event_subscribe(&runner->events, log_event, &runner->log);
    }
}

static enum weir_status open_store(struct node_runner *runner, const struct node_runner_options *options,
                                   struct weir_error *error)
{
    struct store_options store_options = {
        .url = options->store_url, .create = options->create_store, .events = &runner->events};
    enum weir_status status = store_open(&store_options, &runner->store, error);
    if (status == WEIR_STORE_UNREACHABLE && error->hint[0] == '\0') {
        char url[128];
        store_url_shown(options->store_url, url, sizeof url);
        error_hint(error, "make it with: weir store init --store '%s'; or try `weir dev`", url);
    }
    if (status == WEIR_OK && options->create_store) {
        status = store_migrate(runner->store, NULL, error);
    } else if (status == WEIR_OK) {
        status = store_require_schema(runner->store, error);
    }
    return status;
}

enum weir_status node_runner_open(struct node_runner *runner, const struct invocation *invocation,
                                  const struct node_runner_options *options, struct weir_error *error)
{
    *runner = (struct node_runner){.invocation = invocation, .settings = invocation->settings};
    for (size_t i = 0; i < 2; i++) {
        arena_init(&runner->reload_arenas[i], RELOAD_MEMORY_MAX);
    }
    interrupt_watch();
    guard_memory(true);
    enum weir_status status = open_engine(runner, options->open_exec, error);
    if (status == WEIR_OK) {
        open_log(runner, options->log_fd);
        status = open_store(runner, options, error);
    }
    return status;
}

static const char *text_or_null(const struct settings *settings, enum setting_id id)
{
    const char *text = settings_text(settings, id);
    return text[0] == '\0' ? NULL : text;
}

static struct node_settings node_settings_of(const struct node_runner *runner)
{
    const struct settings *settings = runner->settings;
    return (struct node_settings){
        .name = text_or_null(settings, SETTING_NODE_NAME),
        .group = text_or_null(settings, SETTING_EXECUTOR_GROUP),
        .claim_batch = (size_t)settings_number(settings, SETTING_DISPATCH_BATCH_SIZE),
        .poll_interval_us = settings_number(settings, SETTING_DISPATCH_POLL_INTERVAL),
        .lease_us = settings_number(settings, SETTING_NODE_LEASE),
        .stuck_after_us = settings_number(settings, SETTING_EXECUTOR_STUCK_AFTER),
        .stale_claim_us = settings_number(settings, SETTING_CLAIM_TIMEOUT),
        .stale_check_us = settings_number(settings, SETTING_RECOVERY_INTERVAL),
        .retention_us = settings_number(settings, SETTING_RETENTION),
        .stop_grace_us = settings_number(settings, SETTING_STOP_GRACE),
        .attempts_max = (int)settings_number(settings, SETTING_ATTEMPTS_MAX),
        .exclusive = settings_number(settings, SETTING_DISPATCH_EXCLUSIVE) != 0,
        .keeper_pid = assemble_keeper_pid(runner->engine),
    };
}

enum weir_status node_runner_start(struct node_runner *runner, struct weir_error *error)
{
    struct node_settings node_settings = node_settings_of(runner);
    enum weir_status status =
        node_open(runner->store, runner->engine, &runner->events, &node_settings, &runner->node, error);
    return status == WEIR_OK ? node_run_threads(runner->node, error) : status;
}

/* --- while it runs --- */

static void tune_log(struct node_runner *runner, const struct settings *settings, bool only_if_more)
{
    enum log_format format;
    enum event_level least;
    bool known = log_format_parse(settings_text(settings, SETTING_LOG_FORMAT), &format) &&
                 log_level_parse(settings_text(settings, SETTING_LOG_LEVEL), &least);
    INVARIANT(known); /* settings allow no other words */
    if (runner->has_log && !(only_if_more && least >= runner->log.least)) {
        log_tune(&runner->log, format, least);
    }
}

/* The log tells what has changed by the more talkative of its two levels. */
static void take_over(struct node_runner *runner, struct settings *fresh)
{
    tune_log(runner, fresh, true);
    size_t changed = reload_tell(runner->invocation->settings, runner->settings, fresh, &runner->events);
    runner->reloaded = *fresh;
    runner->settings = &runner->reloaded;
    struct node_settings node_settings = node_settings_of(runner);
    node_tune(runner->node, &node_settings);
    struct event event = {.type = EVENT_SETTINGS_RELOADED, .count = (int64_t)changed};
    event_emit(&runner->events, &event);
    tune_log(runner, runner->settings, false);
}

static void reload(struct node_runner *runner)
{
    struct weir_error error = {.status = WEIR_OK};
    struct settings fresh;
    struct arena *unused = &runner->reload_arenas[1];
    const char *config_file = invocation_text(runner->invocation, "config");
    service_reloading();
    enum weir_status status = reload_read(runner->invocation->settings, config_file, unused, &fresh, &error);
    if (status == WEIR_OK) {
        struct arena last = runner->reload_arenas[0];
        take_over(runner, &fresh);
        runner->reload_arenas[0] = *unused;
        *unused = last;
    } else {
        struct event event = {.type = EVENT_SETTINGS_REFUSED, .code = weir_status_name(status), .error = error.message};
        event_emit(&runner->events, &event);
    }
    arena_reset(unused);
    service_notice("READY=1");
}

enum weir_status node_runner_await(struct node_runner *runner, struct weir_error *error)
{
    int64_t watchdog_us = service_watchdog_interval_us();
    int64_t look_us = watchdog_us > 0 && watchdog_us < HEALTH_INTERVAL_US ? watchdog_us : HEALTH_INTERVAL_US;
    int64_t watched_us = 0;
    while (interrupt_count() == 0 && !node_is_stopped(runner->node)) {
        if (!node_is_healthy(runner->node, error)) {
            return error->status == WEIR_OK ? error_set(error, WEIR_STOPPED, "the node cannot go on") : error->status;
        }
        if (interrupt_take_reload()) {
            reload(runner);
        }
        int64_t now_us = clock_boot(clock_system());
        if (watchdog_us > 0 && now_us - watched_us >= watchdog_us) {
            service_notice("WATCHDOG=1");
            watched_us = now_us;
        }
        interrupt_sleep(look_us);
    }
    return WEIR_OK;
}

static int64_t running_of(struct node *node)
{
    json_t *status = node_status(node);
    int64_t running = field_number(status, "running", 0);
    json_decref(status);
    return running;
}

static void say_awaited(const struct node_runner *runner, int64_t running)
{
    char grace[DURATION_TEXT_MAX];
    duration_format(settings_number(runner->settings, SETTING_STOP_GRACE), grace);
    output_say(runner->invocation->output,
               "stopping: waiting up to %s for %" PRId64 " running execution%s; again interrupts", grace, running,
               running == 1 ? "" : "s");
}

static enum weir_status interrupt(struct node_runner *runner, bool by_signal, struct weir_error *error)
{
    bool graceful = false;
    node_begin_stop(runner->node, NODE_STOP_INTERRUPT);
    enum weir_status status = node_await_stop(runner->node, INTERRUPT_DEADLINE_US, &graceful, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (by_signal) {
        return error_set(error, WEIR_INTERRUPTED, "interrupted: what ran was stopped and given back to the queue");
    }
    return error_set(error, WEIR_FAILED, "stop.grace is over: what still ran was stopped and given back to the queue");
}

enum weir_status node_runner_stop(struct node_runner *runner, struct weir_error *error)
{
    int64_t grace_us = settings_number(runner->settings, SETTING_STOP_GRACE);
    int64_t until_us = clock_boot(clock_system()) + grace_us;
    int64_t said = 0;
    bool graceful = true;
    int signals_seen = interrupt_count();
    service_notice("STOPPING=1");
    node_begin_stop(runner->node, NODE_STOP_GRACEFUL);
    for (;;) {
        enum weir_status status = node_await_stop(runner->node, STOP_LOOK_US, &graceful, error);
        if (status == WEIR_OK) {
            return graceful
                       ? WEIR_OK
                       : error_set(error, WEIR_FAILED, "stop.grace is over: what still ran was given back to the queue");
        }
        if (status != WEIR_TIMED_OUT) {
            return status;
        }
        if (interrupt_count() > signals_seen) {
            return interrupt(runner, true, error);
        }
        if (clock_boot(clock_system()) >= until_us) {
            return interrupt(runner, false, error);
        }
        int64_t running = running_of(runner->node);
        if (running > 0 && running != said) {
            say_awaited(runner, running);
            said = running;
        }
    }
}

void node_runner_close(struct node_runner *runner)
{
    node_close(runner->node);
    engine_close(runner->engine);
    store_close(runner->store);
    if (runner->has_log) {
        log_close(&runner->log);
    }
    guard_memory(false);
    for (size_t i = 0; i < 2; i++) {
        arena_close(&runner->reload_arenas[i]);
    }
}
