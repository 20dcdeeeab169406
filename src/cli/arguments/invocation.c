/* The functions by which a verb reads its flags and arguments.
 *
 * All values were checked by command_parse(), so these functions cannot fail. A name that is neither a flag of the
 * command nor a global one is an error of the program and breaks an invariant. Nothing is printed and nothing is opened
 * here. One thread.
 */
#include "cli/arguments/invocation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* Whether the list of flags has the name. */
static bool is_flag_of(const struct flag *flags, size_t most, const char *name)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Shared code of verbs asks this first: another command may not have the flag at all. */
bool invocation_takes(const struct invocation *invocation, const char *name)
{
    return is_flag_of(command_global_flags(), INVOCATION_FLAGS_MAX, name) ||
           is_flag_of(invocation->command->flags, COMMAND_FLAGS_MAX, name);
}

/* The value of a flag, NULL when it was not given. The name must be one that the command has. */
static const struct flag_value *find_value(const struct invocation *invocation, const char *name)
{
    for (size_t i = 0; i < invocation->value_count; i++) {
        if (strcmp(invocation->values[i].flag->name, name) == 0) {
            return &invocation->values[i];
        }
    }
    INVARIANT(invocation_takes(invocation, name));
    return NULL;
}

/* Also true for a flag with an empty value: `--reason ""` was given. */
bool invocation_has(const struct invocation *invocation, const char *name)
{
    return find_value(invocation, name) != NULL;
}

/* The first one of a flag that may be given several times; invocation_texts() returns all. */
const char *invocation_text(const struct invocation *invocation, const char *name)
{
    const struct flag_value *value = find_value(invocation, name);
    return value != NULL ? value->text : NULL;
}

/* The caller may keep the array: it lives as long as the invocation.
 *
 * The values of a flag stand in the order in which they were given, among those of the other flags. */
const char *const *invocation_texts(const struct invocation *invocation, const char *name, size_t *ret_count)
{
    INVARIANT(invocation_takes(invocation, name) && ret_count != NULL);
    const char **texts = arena_allocate(invocation->arena, INVOCATION_FLAGS_MAX * sizeof *texts);
    size_t count = 0;
    for (size_t i = 0; i < invocation->value_count && texts != NULL; i++) {
        if (strcmp(invocation->values[i].flag->name, name) == 0) {
            texts[count++] = invocation->values[i].text;
        }
    }
    *ret_count = count;
    return count > 0 ? texts : NULL;
}

int64_t invocation_number(const struct invocation *invocation, const char *name, int64_t otherwise)
{
    const struct flag_value *value = find_value(invocation, name);
    return value != NULL ? value->number : otherwise;
}

/* Read again, because a relative time counts from the time of the store, which the parser did not know. */
int64_t invocation_time(const struct invocation *invocation, const char *name, int64_t now_us, int64_t otherwise)
{
    const struct flag_value *value = find_value(invocation, name);
    int64_t time_us = otherwise;
    if (value != NULL && time_parse(value->text, now_us, &time_us, NULL) != WEIR_OK) {
        return value->number;
    }
    return time_us;
}

/* The number of arguments was checked against the row, so NULL means one that may be left out. */
const char *invocation_argument(const struct invocation *invocation, size_t n)
{
    return n < invocation->argument_count ? invocation->arguments[n] : NULL;
}

/* Each verb asks this before its first change; a verb without a dry run has a mark in its row. */
bool invocation_is_dry_run(const struct invocation *invocation)
{
    return invocation_has(invocation, "dry-run");
}

/* For a mistake in the arguments: the message is the caller's, and the hint is the usage of the command. */
enum weir_status invocation_usage_error(const struct invocation *invocation, struct weir_error *error, const char *format,
                                        ...)
{
    char message[WEIR_ERROR_MESSAGE_MAX];
    char usage[128];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(error, WEIR_INVALID_ARGUMENT, "%s", message);
    command_usage(invocation->command, usage, sizeof usage);
    error_hint(error, "usage: %s", usage);
    return WEIR_INVALID_ARGUMENT;
}
