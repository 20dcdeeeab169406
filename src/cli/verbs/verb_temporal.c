/* `weir temporal setup`: adds weir's search attribute to the namespaces of the nodes.
 *
 * It calls the service of each node of the settings that runs on Temporal, or of the one of --executor-group. No store and
 * no node takes part. A namespace that has the attribute already is not changed. A dry run makes no call, because the
 * service does not show whether this client may change it. One thread.
 */
#include <string.h>

#include "base/error.h"
#include "cli/settings/temporal_settings.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/verb.h"

/* The outcome for one namespace; NULL = out of memory. */
static json_t *describe_setup(const struct settings *settings, bool was_there)
{
    return json_pack("{s:s, s:s, s:s, s:b}", "namespace", settings_text(settings, SETTING_TEMPORAL_NAMESPACE), "address",
                     settings_text(settings, SETTING_TEMPORAL_ADDRESS), "search_attribute", TEMPORAL_WORKSPACE_ATTRIBUTE,
                     "changed", !was_there);
}

/* A dry run makes no call: only a change shows whether this client has the right to it. */
static enum weir_status set_up_namespace(const struct invocation *invocation, const struct settings *settings,
                                         json_t *items, struct weir_error *error)
{
    struct temporal_options temporal;
    struct engine_options options = {.temporal = &temporal};
    const char *engine = settings_text(settings, SETTING_ENGINE);
    const char *space = output_safe(invocation->output, settings_text(settings, SETTING_TEMPORAL_NAMESPACE));
    bool is_dry_run = invocation_is_dry_run(invocation);
    bool was_there = false;
    temporal_settings_read(settings, &temporal);
    enum weir_status status =
        is_dry_run ? assemble_require_operator(engine, "search attributes", error)
                   : assemble_set_up_service(engine, &options, temporal_service_timeout(invocation), &was_there, error);
    if (status != WEIR_OK) {
        return status;
    }
    output_report(invocation->output,
                  is_dry_run  ? "would add the search attribute %s to the namespace %s, unless it has it"
                  : was_there ? "the search attribute %s is in the namespace %s already"
                              : "the search attribute %s is in the namespace %s: nodes use it within five minutes",
                  TEMPORAL_WORKSPACE_ATTRIBUTE, space);
    return json_array_append_new(items, describe_setup(settings, was_there)) == 0 ? WEIR_OK : error_out_of_memory(error);
}

static bool is_on_temporal(const struct settings *settings)
{
    return strcmp(settings_text(settings, SETTING_ENGINE), "temporal") == 0;
}

/* Every node of the settings that runs executions on Temporal, or the one of --executor-group. */
static enum weir_status set_up_namespaces(const struct invocation *invocation, json_t *items, struct weir_error *error)
{
    const struct settings *settings = invocation->settings;
    const char *group = invocation_text(invocation, "executor-group");
    enum weir_status status = WEIR_OK;
    if (group != NULL || settings->node_count == 0) {
        struct settings own = settings_of_group(settings, group);
        return set_up_namespace(invocation, &own, items, error);
    }
    for (size_t i = 0; i < settings->node_count && status == WEIR_OK; i++) {
        struct settings own = settings_of_node(settings, i);
        if (is_on_temporal(&own)) {
            status = set_up_namespace(invocation, &own, items, error);
        }
    }
    if (status == WEIR_OK && json_array_size(items) == 0) {
        return assemble_require_operator("in_process", "search attributes", error); /* no node has them */
    }
    return status;
}

enum weir_status verb_temporal_setup(struct invocation *invocation, struct weir_error *error)
{
    json_t *items = json_array();
    enum weir_status status = items == NULL ? error_out_of_memory(error) : set_up_namespaces(invocation, items, error);
    if (status == WEIR_OK) {
        status = verb_print_act(invocation, json_pack("{s:O}", "namespaces", items), error);
    }
    json_decref(items);
    return status;
}
