/* Reads secrets from files and from the environment.
 *
 *   1. The places are tried in the order of secret.h. A place without the name is skipped. A file that exists and cannot be
 *      read ends the search: the operator meant this file, and a value of a weaker place would hide the mistake.
 *   2. A file must be a regular one. A pipe or a device could block the reader for ever.
 *   3. One line end at the end goes, because editors add it and no password has it.
 *   4. An empty value, a NUL, bytes that are no UTF-8 and a value over the limit are refused. No program starts with such a
 *      value instead of the meant one.
 *
 * A message never holds a part of a value. Every buffer that held one is overwritten before it is freed. Any thread.
 */
#include "base/secret.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

#define VARIABLE_PREFIX "WEIR_SECRET_"

enum { VARIABLE_NAME_SIZE = sizeof VARIABLE_PREFIX + SECRET_NAME_MAX };

bool secret_name_is_valid(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t length = strspn(name, letters);
    return length > 0 && length <= SECRET_NAME_MAX && name[length] == '\0' && name[0] != '.' && name[0] != '-';
}

/* --- sources --- */

static bool is_secret_variable(const char *variable)
{
    return strncmp(variable, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) == 0;
}

static enum weir_status copy_path(const char *path, char **ret_copy, struct weir_error *error)
{
    if (path == NULL || path[0] == '\0') {
        return WEIR_OK;
    }
    *ret_copy = strdup(path);
    return *ret_copy != NULL ? WEIR_OK : error_out_of_memory(error);
}

enum weir_status secret_sources_open(struct secret_sources *sources, const char *directory, struct weir_error *error)
{
    INVARIANT(sources != NULL);
    *sources = (struct secret_sources){.directory = NULL};
    size_t count = 0;
    size_t copied = 0;
    for (char **variable = environ; variable != NULL && *variable != NULL && count < SECRET_VARIABLES_MAX; variable++) {
        count += is_secret_variable(*variable);
    }
    enum weir_status status = copy_path(directory, &sources->directory, error);
    status = status == WEIR_OK ? copy_path(getenv("CREDENTIALS_DIRECTORY"), &sources->credentials, error) : status;
    sources->variables = calloc(count + 1, sizeof(char *));
    if (status != WEIR_OK || sources->variables == NULL) {
        return error_out_of_memory(error);
    }
    for (char **variable = environ; copied < count && *variable != NULL; variable++) {
        if (is_secret_variable(*variable)) {
            sources->variables[copied] = strdup(*variable);
            if (sources->variables[copied++] == NULL) {
                return error_out_of_memory(error);
            }
        }
    }
    return WEIR_OK;
}

void secret_sources_close(struct secret_sources *sources)
{
    INVARIANT(sources != NULL);
    for (size_t i = 0; sources->variables != NULL && sources->variables[i] != NULL; i++) {
        explicit_bzero(sources->variables[i], strlen(sources->variables[i]));
        free(sources->variables[i]);
    }
    free(sources->variables);
    free(sources->directory);
    free(sources->credentials);
    *sources = (struct secret_sources){.directory = NULL};
}

/* --- places --- */

/* "stripe-key" -> "WEIR_SECRET_STRIPE_KEY" */
static void name_variable(const char *name, char *to)
{
    size_t at = strlen(VARIABLE_PREFIX);
    memcpy(to, VARIABLE_PREFIX, at);
    for (; *name != '\0' && at < VARIABLE_NAME_SIZE - 1; name++) {
        to[at++] = isalnum((unsigned char)*name) ? (char)toupper((unsigned char)*name) : '_';
    }
    to[at] = '\0';
}

static const char *find_variable(const struct secret_sources *sources, const char *name)
{
    char variable[VARIABLE_NAME_SIZE];
    name_variable(name, variable);
    size_t length = strlen(variable);
    for (size_t i = 0; sources->variables[i] != NULL; i++) {
        if (strncmp(sources->variables[i], variable, length) == 0 && sources->variables[i][length] == '=') {
            return sources->variables[i] + length + 1;
        }
    }
    return NULL;
}

bool secret_find_file(const struct secret_sources *sources, const char *name, char *path, size_t size)
{
    const char *folders[] = {sources->directory, sources->credentials};
    INVARIANT(secret_name_is_valid(name) && size > 0);
    for (size_t i = 0; i < 2; i++) {
        struct stat about;
        int length = folders[i] == NULL ? 0 : snprintf(path, size, "%s/%s", folders[i], name);
        if (length > 0 && (size_t)length < size && (stat(path, &about) == 0 || (errno != ENOENT && errno != ENOTDIR))) {
            return true;
        }
    }
    return false;
}

/* --- values --- */

/* Reads the file into `to`, at most one byte more than a secret may have. */
static enum weir_status read_value_file(const char *name, const char *path, struct text *to, struct weir_error *error)
{
    char bytes[4096];
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    enum weir_status status = WEIR_OK;
    if (fd < 0 || fstat(fd, &about) != 0) {
        int native = errno;
        status = error_set_native(error, WEIR_FAILED, native, "the secret \"%s\" cannot be read from %s: %s", name, path,
                                  strerror(native));
    } else if (!S_ISREG(about.st_mode)) {
        status = error_set(error, WEIR_FAILED, "the secret \"%s\" is not in a file: %s is something else", name, path);
    }
    ssize_t got = 1;
    while (status == WEIR_OK && got > 0 && to->length <= SECRET_BYTES_MAX) {
        size_t space = to->max - to->length;
        got = read(fd, bytes, space < sizeof bytes ? space : sizeof bytes);
        if (got < 0) {
            int native = errno;
            status = error_set_native(error, WEIR_FAILED, native, "the secret \"%s\" cannot be read from %s: %s", name,
                                      path, strerror(native));
        } else if (text_add(to, bytes, (size_t)got) != WEIR_OK) {
            status = error_out_of_memory(error);
        }
    }
    explicit_bzero(bytes, sizeof bytes);
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/* Steps 3 and 4. `place`: of the value, for the message. */
static enum weir_status check_value(const char *name, const char *place, struct text *value, struct weir_error *error)
{
    if (value->length > 0 && value->data[value->length - 1] == '\n') {
        value->length -= value->length > 1 && value->data[value->length - 2] == '\r' ? 2 : 1;
        value->data[value->length] = '\0';
    }
    const char *problem = value->length == 0                                 ? "is empty"
                          : value->length > SECRET_BYTES_MAX                 ? "has more than 65536 bytes"
                          : memchr(value->data, '\0', value->length) != NULL ? "holds a NUL byte"
                          : !text_is_utf8(value->data, value->length) ? "is not UTF-8 text: encode it, as base64 does"
                                                                      : NULL;
    return problem == NULL ? WEIR_OK : error_set(error, WEIR_FAILED, "the secret \"%s\" in %s %s", name, place, problem);
}

static enum weir_status refuse_missing(const struct secret_sources *sources, const char *name, struct weir_error *error)
{
    char variable[VARIABLE_NAME_SIZE];
    name_variable(name, variable);
    bool has_folder = sources->directory != NULL;
    return error_set(error, WEIR_NOT_FOUND, "the secret \"%s\" is missing: there is no %s%s%s%s%svariable %s", name,
                     has_folder ? "file " : "", has_folder ? sources->directory : "", has_folder ? "/" : "",
                     has_folder ? name : "",
                     sources->credentials != NULL ? has_folder ? ", no systemd credential of that name and no "
                                                               : "systemd credential of that name and no "
                     : has_folder                 ? " and no "
                                                  : "",
                     variable);
}

enum weir_status secret_read(const struct secret_sources *sources, const char *name, struct secret *ret_secret,
                             struct weir_error *error)
{
    INVARIANT(sources->variables != NULL && ret_secret != NULL && secret_name_is_valid(name));
    char path[PATH_MAX];
    char variable[VARIABLE_NAME_SIZE];
    const char *place = path;
    struct text value = {.max = SECRET_BYTES_MAX + 2, .wipes = true};
    enum weir_status status;
    if (secret_find_file(sources, name, path, sizeof path)) {
        status = read_value_file(name, path, &value, error);
    } else {
        const char *found = find_variable(sources, name);
        if (found == NULL) {
            return refuse_missing(sources, name, error);
        }
        name_variable(name, variable);
        place = variable;
        size_t length = strlen(found);
        status = text_add(&value, found, length < value.max ? length : value.max);
        status = status == WEIR_OK ? WEIR_OK : error_out_of_memory(error);
    }
    status = status == WEIR_OK ? check_value(name, place, &value, error) : status;
    if (status != WEIR_OK) {
        text_close(&value);
        return status;
    }
    *ret_secret = (struct secret){.value = value.data, .length = value.length};
    return WEIR_OK;
}

void secret_close(struct secret *secret)
{
    INVARIANT(secret != NULL);
    if (secret->value != NULL) {
        explicit_bzero(secret->value, secret->length);
        free(secret->value);
    }
    *secret = (struct secret){.value = NULL};
}
