/* Secrets: values that a process reads from its surroundings and gives to nothing but the code that asked for them.
 *
 * A secret has a name. Its value comes from the first of these places that has one:
 *
 *     1. the file DIRECTORY/NAME of the settings
 *     2. the file $CREDENTIALS_DIRECTORY/NAME (systemd: LoadCredential=)
 *     3. the environment variable WEIR_SECRET_NAME, with NAME in capitals and '_' for each other character
 *
 * A file is read at each call, so a changed file counts at once. The variables are copied when the sources are opened,
 * because a host program may change its environment while another thread reads it.
 *
 * Threads: any, after secret_sources_open(). Owner of a value: the caller, until secret_close(), which overwrites it.
 */
#ifndef WEIR_BASE_SECRET_H
#define WEIR_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"

enum {
    SECRET_BYTES_MAX = 64 * 1024, /* of one value */
    SECRET_NAME_MAX = 64,         /* bytes */
    SECRET_VARIABLES_MAX = 1024   /* variables WEIR_SECRET_... of one process; further ones are not read */
};

struct secret_sources {
    char *directory;   /* of the settings, or NULL */
    char *credentials; /* $CREDENTIALS_DIRECTORY, or NULL */
    char **variables;  /* copies of "WEIR_SECRET_...=value"; NULL-terminated */
};

struct secret {
    char *value; /* NUL-terminated UTF-8 without a NUL inside, never empty */
    size_t length;
};

/* True for [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}. */
bool secret_name_is_valid(const char *name);
/* `directory`: NULL or "" = none. WEIR_OUT_OF_MEMORY. After an error secret_sources_close() frees the parts. */
WEIR_MUST_CHECK enum weir_status secret_sources_open(struct secret_sources *sources, const char *directory,
                                                     struct weir_error *error);
void secret_sources_close(struct secret_sources *sources);
/* Reads the value without one line end at its end. WEIR_NOT_FOUND: no place has it; WEIR_FAILED: the first place that has
 * it cannot be read, or holds no usable value. The message names the places, never a value. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status secret_read(const struct secret_sources *sources, const char *name,
                                             struct secret *ret_secret, struct weir_error *error);
/* The path of the file that secret_read() would read, in `path`; false when the value is in none. */
bool secret_find_file(const struct secret_sources *sources, const char *name, char *path, size_t size);
/* Overwrites the value and frees it. */
void secret_close(struct secret *secret);

#endif
