/* The second read of the settings, after a SIGHUP.
 *
 * A table lists the settings that a running node can take over. The new settings are read as a whole first; a file with
 * an error changes nothing. Each other setting that differs is reported as waiting for a restart, and keeps its old
 * value. The values of such a setting are not logged, because the URL of the store may hold a password. Runs in the main
 * thread.
 */
#include "cli/settings/reload.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Settings that a loop of a node reads at each use; all others are fixed when the node opens its store and its engine. */
static const enum setting_id reloadable[] = {
    SETTING_DISPATCH_BATCH_SIZE, SETTING_DISPATCH_POLL_INTERVAL,
    SETTING_CLAIM_TIMEOUT,       SETTING_RECOVERY_INTERVAL,
    SETTING_STARTS_MAX,          SETTING_EXECUTOR_STUCK_AFTER,
    SETTING_STOP_GRACE,          SETTING_RETENTION,
    SETTING_ARCHIVE_AFTER,       SETTING_AUDIT_RETENTION,
    SETTING_LOGS_RETENTION,      SETTING_LOGS_ATTEMPT_BYTES,
    SETTING_LOG_FORMAT,          SETTING_LOG_LEVEL,
};

/* Whether a running node can take over the setting. */
static bool is_reloadable(enum setting_id id)
{
    for (size_t i = 0; i < sizeof reloadable / sizeof reloadable[0]; i++) {
        if (reloadable[i] == id) {
            return true;
        }
    }
    return false;
}

enum weir_status reload_read(const struct settings *started, const char *config_file, struct arena *arena,
                             struct settings *fresh, struct weir_error *error)
{
    struct settings read;
    enum weir_status status = settings_load(&read, arena, config_file, error);
    for (unsigned id = 0; id < SETTING_COUNT && status == WEIR_OK; id++) {
        if (strncmp(started->values[id].origin, "--", 2) == 0) {
            read.values[id] = started->values[id];
        }
    }
    if (status == WEIR_OK) {
        *fresh = read;
    }
    return status;
}

/* `group`: of the node that alone has changed; "" = of the process. */
static void report_change(struct event_bus *events, const char *group, unsigned id, const char *from, const char *to)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%s%s%s: %s -> %s", group, group[0] != '\0' ? ": " : "", settings_table()[id].key,
                   from, to);
    struct event event = {.type = EVENT_SETTING_CHANGED, .reason = text};
    event_emit(events, &event);
}

size_t reload_report(const struct settings *started, const struct settings *before, struct settings *fresh,
                     struct event_bus *events)
{
    size_t changed = 0;
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        const char *from = before->values[id].text;
        const char *to = fresh->values[id].text;
        bool is_same = strcmp(from, to) == 0;
        if (!is_same && is_reloadable((enum setting_id)id)) {
            report_change(events, "", id, from, to);
            changed++;
        } else if (!is_same) {
            /* No values: the store's may hold a password. */
            struct event event = {.type = EVENT_SETTING_WAITS, .reason = settings_table()[id].key};
            event_emit(events, &event);
        }
        if (!is_reloadable((enum setting_id)id)) {
            fresh->values[id] = started->values[id];
        }
    }
    return changed;
}

size_t reload_node(struct settings *node, const struct settings *process, struct event_bus *events)
{
    const char *group = settings_text(node, SETTING_EXECUTOR_GROUP);
    const struct settings_node *entry = settings_entry_of(process, group);
    struct settings fresh = settings_of_group(process, group);
    size_t changed = 0;
    for (size_t i = 0; i < sizeof reloadable / sizeof reloadable[0]; i++) {
        const struct setting_value *to = &fresh.values[reloadable[i]];
        if (entry != NULL && entry->values[reloadable[i]].text != NULL &&
            strcmp(node->values[reloadable[i]].text, to->text) != 0) {
            report_change(events, group, reloadable[i], node->values[reloadable[i]].text, to->text);
            changed++;
        }
        node->values[reloadable[i]] = *to;
    }
    return changed;
}
