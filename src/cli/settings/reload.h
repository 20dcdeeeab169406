/* SIGHUP to `weir serve`: the settings are read again, and those that may change while a node runs take effect.
 *
 * The same places are read as at the start (files, environment); a setting of a flag stays. A file that is wrong changes
 * nothing: the event settings.refused has the fault and its place. Otherwise each setting that took effect is a line
 * setting.changed, and each that needs a restart a line setting.waits, at every reload until it is restarted.
 */
#ifndef WEIR_CLI_SETTINGS_RELOAD_H
#define WEIR_CLI_SETTINGS_RELOAD_H

#include "cli/settings/settings.h"
#include "observe/event.h"

/* Reads everything again into `fresh`, with `arena` for its memory. `started` are the settings of the start: their flags
 * stay, and settings that need a restart keep their value. `fresh` is whole or untouched. */
WEIR_MUST_CHECK enum weir_status reload_read(const struct settings *started, const char *config_file, struct arena *arena,
                                             struct settings *fresh, struct weir_error *error);

/* Emits an event for each setting with another value than in `before`. It has changed when a running node takes it
 * over. Else it waits, and `fresh` gets the value of `started` again. Returns how many have changed. */
size_t reload_report(const struct settings *started, const struct settings *before, struct settings *fresh,
                     struct event_bus *events);

/* For one node of the process: copies the settings that a running node can take over from the new ones in `process`.
 * They come from its entry of `nodes`, or else from the settings beside `nodes`. Emits events for the changes of its
 * own entry. A new entry needs a restart. Returns how many of the entry's own have changed. */
size_t reload_node(struct settings *node, const struct settings *process, struct event_bus *events);

#endif
