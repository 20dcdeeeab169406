/* `weir __routes`: the table of routes of the HTTP API as JSON, for tests and for the table in docs/http.md. Like
 * `__complete` it is no verb of the table of commands. */
#ifndef WEIR_CLI_VERBS_PRINT_ROUTES_H
#define WEIR_CLI_VERBS_PRINT_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the arguments of the process ask for it: "__routes" alone. */
bool routes_are_asked(size_t count, const char *const *arguments);
/* Prints one JSON array and returns the exit code: 1 = there is no memory. */
int routes_print(void);

#endif
