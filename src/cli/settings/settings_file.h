/* One weir.yaml laid over settings: see cli/settings/settings.h for its keys. Only settings.c includes this. */
#ifndef WEIR_CLI_SETTINGS_FILE_H
#define WEIR_CLI_SETTINGS_FILE_H

#include "cli/settings/settings.h"

/* *ret_found: whether the file was there; when it was not, that is WEIR_OK only if it `may_miss`. Its list of nodes
 * takes the place of an earlier file's. WEIR_INVALID_CONFIG names file, line and column. */
WEIR_MUST_CHECK enum weir_status settings_file_read(struct settings *settings, const char *path, bool may_miss,
                                                    bool *ret_found, struct weir_error *error);

#endif
