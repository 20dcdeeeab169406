/* The settings `temporal.*` in the form of the engine. */
#ifndef WEIR_CLI_SETTINGS_TEMPORAL_SETTINGS_H
#define WEIR_CLI_SETTINGS_TEMPORAL_SETTINGS_H

#include "assemble.h"
#include "cli/settings/settings.h"

/* Texts stay those of the settings. */
void temporal_settings_read(const struct settings *settings, struct temporal_options *ret_options);

#endif
