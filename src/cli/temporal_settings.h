/* The settings `temporal.*` as the engine wants them, and what verbs ask of the engine's service directly. */
#ifndef WEIR_CLI_TEMPORAL_SETTINGS_H
#define WEIR_CLI_TEMPORAL_SETTINGS_H

#include "assemble.h"
#include "cli/command.h"
#include "cli/settings.h"

/* Texts stay those of the settings. */
void temporal_settings_read(const struct settings *settings, struct temporal_options *ret_options);
/* How long a verb waits for the service: --timeout, or ten seconds. */
int64_t temporal_settings_timeout(const struct invocation *invocation);
/* Ends the workflow of an execution (of store_show()) at once, with the settings of its group. Errors as
 * assemble_terminate(). */
WEIR_MUST_CHECK enum weir_status temporal_settings_terminate(const struct invocation *invocation, const json_t *execution,
                                                             const char *reason, struct weir_error *error);

#endif
