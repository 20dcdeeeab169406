/* weir pause, resume: the whole queue, or one executor group. */
#include "base/error.h"
#include "cli/arguments/command.h"
#include "cli/arguments/filter.h"

static enum weir_status set_paused(struct invocation *invocation, bool paused, struct weir_error *error)
{
    struct store *store = NULL;
    struct output *output = invocation->output;
    const char *group = invocation_text(invocation, "group");
    enum weir_status status = invocation_open_store(invocation, STORE_CHANGE, &store, error);
    if (status == WEIR_OK && group != NULL) {
        status = filter_require_name(store, LIST_GROUPS, group, WEIR_NOT_FOUND, error);
    }
    if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        status = store_set_paused(store, group, paused, error);
    }
    if (status == WEIR_OK) {
        output_say_sign(output, paused ? SIGN_PAUSED : SIGN_FINE, "%s%s %s%s", group != NULL ? "group " : "the queue",
                        group != NULL ? output_safe(output, group) : "",
                        invocation_is_dry_run(invocation) ? "would be " : "is ",
                        paused ? "paused; what runs goes on" : "resumed");
        status = invocation_print_act(invocation, json_pack("{s:s?, s:b}", "group", group, "paused", paused), error);
    }
    store_close(store);
    return status;
}

enum weir_status verb_pause(struct invocation *invocation, struct weir_error *error)
{
    return set_paused(invocation, true, error);
}

enum weir_status verb_resume(struct invocation *invocation, struct weir_error *error)
{
    return set_paused(invocation, false, error);
}
