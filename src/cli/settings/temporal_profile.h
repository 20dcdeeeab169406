/* Where Temporal's own tools find the service: TEMPORAL_* variables, and the profile file of Temporal's command line.
 *
 * They count only while weir itself names no address (weir.yaml, an entry of `nodes`, WEIR_TEMPORAL_ADDRESS). The TLS
 * settings of one service must not be combined with the address of another. Weir's own settings win over theirs; a
 * variable wins over the file. The file is TEMPORAL_CONFIG_FILE, or temporalio/temporal.toml in the user's
 * configuration folder; the profile is TEMPORAL_PROFILE, or "default". Of TOML it reads sections, and keys with a
 * string or a boolean; other keys of the profile are passed over.
 */
#ifndef WEIR_CLI_SETTINGS_TEMPORAL_PROFILE_H
#define WEIR_CLI_SETTINGS_TEMPORAL_PROFILE_H

#include "cli/settings/settings.h"

/* After weir's own sources. WEIR_INVALID_CONFIG names the file and the line, or the variable. */
WEIR_MUST_CHECK enum weir_status temporal_profile_apply(struct settings *settings, struct weir_error *error);

#endif
