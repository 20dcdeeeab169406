/* The table of commands as JSON, for programs: `weir help --json`. */
#ifndef WEIR_CLI_HELP_HELP_JSON_H
#define WEIR_CLI_HELP_HELP_JSON_H

#include <jansson.h>

struct command;

/* `only`: the list of commands has this one alone; NULL = those of `noun`; both NULL = all. NULL when out of memory; the
 * caller releases it. */
json_t *help_json(const struct command *only, const char *noun);

#endif
