/* The table of commands as JSON, for programs: `weir help --json`. */
#ifndef WEIR_CLI_HELP_HELP_JSON_H
#define WEIR_CLI_HELP_HELP_JSON_H

#include <jansson.h>

/* NULL when out of memory; the caller releases it. */
json_t *help_json(void);

#endif
