/* `weir serve` and `weir dev`: nodes as a process.
 *
 * The log is the data on stdout; everything else is a message on stderr. `serve` needs a store that is migrated, and
 * reads its settings again at a SIGHUP. `dev` makes and migrates the store, opens exec, and makes a first workspace,
 * unless there is one.
 *
 * A node that cannot continue ends the process with an exit code, so that a service manager starts it again; its executions
 * are handed over as after a crash. Runs in the main thread.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/node_runner.h"
#include "cli/sd_notify.h"
#include "cli/signals.h"
#include "cli/verbs/verb.h"
#include "weir/weir.h"

/* The workspace of the first executions of a new user: its plan has five slots, so that a first try does not wait for
 * one. */
#define DEV_WORKSPACE "default"
#define DEV_PLAN "pro"

/* The rule for steps that run programs. */
static const char *exec_rule_text(const struct settings *settings, bool open_exec)
{
    if (open_exec ||
        (settings_number(settings, SETTING_EXEC_ALLOW) != 0 && settings_list(settings, SETTING_EXEC_ALLOW) == NULL)) {
        return "exec open";
    }
    return settings_number(settings, SETTING_EXEC_ALLOW) != 0 ? "exec for listed programs" : "exec closed";
}

/* Reports the nodes of the process, each with its engine. */
static void report_nodes_started(struct output *output, const struct node_runner *runner)
{
    const struct running_node *first = &runner->nodes[0];
    if (runner->count == 1) {
        output_report(output, "weir %s - store %s - engine %s - %s", weir_version(), store_url(runner->store),
                      engine_name(first->engine), exec_rule_text(&first->settings, false));
        return;
    }
    output_report(output, "weir %s - store %s - %zu nodes", weir_version(), store_url(runner->store), runner->count);
    for (size_t i = 0; i < runner->count; i++) {
        const struct running_node *running = &runner->nodes[i];
        const char *group = output_safe(output, settings_text(&running->settings, SETTING_EXECUTOR_GROUP));
        if (strcmp(engine_name(running->engine), "temporal") == 0) {
            output_report(output, "group %s - engine temporal - namespace %s at %s", group,
                          output_safe(output, settings_text(&running->settings, SETTING_TEMPORAL_NAMESPACE)),
                          output_safe(output, settings_text(&running->settings, SETTING_TEMPORAL_ADDRESS)));
        } else {
            output_report(output, "group %s - engine %s - %s", group, engine_name(running->engine),
                          exec_rule_text(&running->settings, false));
        }
    }
}

/* Runs the nodes until a signal or a failure, then stops them. */
static enum weir_status run_until_stopped(struct node_runner *runner, struct weir_error *error)
{
    enum weir_status status = node_runner_start(runner, error);
    if (status != WEIR_OK) {
        return status;
    }
    node_runner_report_http(runner);
    sd_notify_send("READY=1");
    status = node_runner_await(runner, error);
    if (status != WEIR_OK) {
        /* A node that cannot continue is closed as if it had died, so that other nodes take over. The exit code reports
         * it. */
        if (status != WEIR_OUT_OF_MEMORY) {
            error_prefix(error, "the node ends");
        }
        return WEIR_STOPPED;
    }
    return node_runner_stop(runner, error);
}

/* The runner is static here and below: it is larger than the smallest stack, whose size is checked later. */
enum weir_status verb_serve(struct invocation *invocation, struct weir_error *error)
{
    static struct node_runner runner;
    struct node_runner_options options = {.store_url = settings_text(invocation->settings, SETTING_STORE),
                                          .group = invocation_text(invocation, "executor-group"),
                                          .log_fd = STDOUT_FILENO};
    enum weir_status status = node_runner_open(&runner, invocation, &options, error);
    signals_catch_reload();
    if (status == WEIR_OK) {
        report_nodes_started(invocation->output, &runner);
        status = run_until_stopped(&runner, error);
    }
    node_runner_close(&runner);
    return status;
}

/* --- dev --- */

/* Makes a first workspace in a store without any. Later changes of a user stay. */
static enum weir_status prepare_dev_workspace(struct store *store, bool *ret_is_new, struct weir_error *error)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_WORKSPACES, .limit = 1};
    enum weir_status status = store_list(store, &options, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    *ret_is_new = json_array_size(json_object_get(page, "items")) == 0;
    json_decref(page);
    if (!*ret_is_new) {
        return WEIR_OK;
    }
    struct workspace_change change = {.name = DEV_WORKSPACE, .plan = DEV_PLAN, .paused = -1, .create = true};
    return store_set_workspace(store, &change, error);
}

/* Suggests the first commands of a new user. */
static void report_dev_commands(struct output *output, const char *url, bool is_new)
{
    output_report(output, "weir %s - a node for development, exec open", weir_version());
    output_report(output, "data: %s (%s; it stays when this ends; Ctrl-C ends it)", url, is_new ? "new" : "from before");
    output_report(output, "try, in another terminal of this folder:");
    output_report(output, "  weir demo --eject                              # writes onboard-customer.yaml");
    output_report(output, "  weir workflow apply onboard-customer.yaml");
    output_report(output, "  weir enqueue -w " DEV_WORKSPACE " onboard-customer -p '{\"customer\": 42}' --wait");
    output_report(output, "  weir top");
}

enum weir_status verb_dev(struct invocation *invocation, struct weir_error *error)
{
    static struct node_runner runner;
    struct node_runner_options options = {.store_url = settings_text(invocation->settings, SETTING_STORE),
                                          .create_store = true,
                                          .open_exec = true,
                                          .opens_http = true,
                                          .is_anonymous = true,
                                          .log_fd = STDOUT_FILENO};
    bool is_new = false;
    enum weir_status status = node_runner_open(&runner, invocation, &options, error);
    if (status == WEIR_OK) {
        status = prepare_dev_workspace(runner.store, &is_new, error);
    }
    if (status == WEIR_OK) {
        report_dev_commands(invocation->output, store_url(runner.store), is_new);
        status = run_until_stopped(&runner, error);
    }
    node_runner_close(&runner);
    return status;
}
