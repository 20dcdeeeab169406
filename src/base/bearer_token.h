/* The token of an HTTP client, from the file or the environment variable that holds it. A command line would show it. */
#ifndef WEIR_BASE_BEARER_TOKEN_H
#define WEIR_BASE_BEARER_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum { BEARER_TOKEN_BYTES_MAX = 8192 };

/* Reads the first line of the file `from`, or of the variable NAME when `from` is "env:NAME", into `to`, `size` bytes.
 * False and "": it cannot be read, is empty, or is not printable ASCII. Any thread while none changes the environment. */
bool bearer_token_read(const char *from, char *to, size_t size);

/* Whether `from` names a regular file with rights for every user of this machine. A pipe and a variable are private. */
bool bearer_token_is_open(const char *from);

#endif
