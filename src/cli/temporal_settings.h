/* The settings `temporal.*` as the engine wants them. */
#ifndef WEIR_CLI_TEMPORAL_SETTINGS_H
#define WEIR_CLI_TEMPORAL_SETTINGS_H

#include "assemble.h"
#include "cli/settings.h"

/* Texts stay those of the settings. */
void temporal_settings_read(const struct settings *settings, struct temporal_options *ret_options);

#endif
