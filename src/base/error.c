/* Filling struct weir_error, the facts of each status, and the end of a broken invariant. Any thread; the caller owns the
 * struct.
 *
 * Every message is built in a buffer aside, because its arguments may point into the old message. It then becomes one safe
 * line: control characters and invalid UTF-8 become '?', since texts of users and servers go into it. Messages that are too
 * long are cut at a character.
 *
 * The list of statuses in weir/status.h gives name, kind, HTTP status and exit code; a number outside of it counts as
 * misuse.
 */
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct status_facts {
    const char *name;
    enum weir_error_kind kind;
    int http;
    int exit;
};

static const struct status_facts status_facts[] = {
#define STATUS_FACTS(id, kind, http, exit, name) [id] = {name, WEIR_KIND_##kind, http, exit},
    WEIR_STATUS_LIST(STATUS_FACTS)
#undef STATUS_FACTS
};

static const struct status_facts *status_facts_of(enum weir_status status)
{
    if ((unsigned)status >= WEIR_STATUS_COUNT) {
        return &status_facts[WEIR_MISUSE];
    }
    return &status_facts[status];
}

const char *weir_status_name(enum weir_status status)
{
    return status_facts_of(status)->name;
}

enum weir_error_kind weir_status_kind(enum weir_status status)
{
    return status_facts_of(status)->kind;
}

int weir_status_http(enum weir_status status)
{
    return status_facts_of(status)->http;
}

int weir_status_exit(enum weir_status status)
{
    return status_facts_of(status)->exit;
}

WEIR_PRINTF(3, 0)
static void format_safe_line(char *to, size_t size, const char *format, va_list arguments)
{
    (void)vsnprintf(to, size, format, arguments);
    text_make_safe(to);
}

WEIR_PRINTF(4, 0)
static enum weir_status fill_error(struct weir_error *error, enum weir_status status, int native, const char *format,
                                   va_list arguments)
{
    if (error != NULL) {
        /* The message may quote the old one, so it is built in a buffer of its own. */
        char message[WEIR_ERROR_MESSAGE_MAX];
        format_safe_line(message, sizeof message, format, arguments);
        error->status = status;
        error->native = native;
        error->hint[0] = '\0';
        memcpy(error->message, message, sizeof message);
    }
    return status;
}

enum weir_status error_set(struct weir_error *error, enum weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_error(error, status, 0, format, arguments);
    va_end(arguments);
    return status;
}

enum weir_status error_set_native(struct weir_error *error, enum weir_status status, int native, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_error(error, status, native, format, arguments);
    va_end(arguments);
    return status;
}

void error_hint(struct weir_error *error, const char *format, ...)
{
    if (error == NULL) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    format_safe_line(error->hint, sizeof error->hint, format, arguments);
    va_end(arguments);
}

void error_prefix(struct weir_error *error, const char *format, ...)
{
    if (error == NULL) {
        return;
    }
    char prefix[WEIR_ERROR_MESSAGE_MAX / 2];
    char message[WEIR_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    format_safe_line(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    memcpy(message, error->message, sizeof message);
    size_t used = strlen(prefix);
    memcpy(error->message, prefix, used);
    (void)snprintf(error->message + used, sizeof error->message - used, ": %s", message);
    text_make_safe(error->message);
}

void error_clear(struct weir_error *error)
{
    if (error != NULL) {
        *error = (struct weir_error){.status = WEIR_OK};
    }
}

enum weir_status error_out_of_memory(struct weir_error *error)
{
    return error_set(error, WEIR_OUT_OF_MEMORY, "out of memory");
}

void invariant_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "weir: broken invariant at %s:%d: %s\n", file, line, condition);
    abort();
}
