/* One call of a command: the checked flags and arguments, and the functions by which a verb reads them.
 *
 * command_parse() fills it. Threads: one. Memory: everything of an invocation lives in its arena until the process ends.
 */
#ifndef WEIR_CLI_ARGUMENTS_INVOCATION_H
#define WEIR_CLI_ARGUMENTS_INVOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "cli/arguments/command_table.h"
#include "cli/settings/settings.h"
#include "weir/status.h"

struct output;

struct flag_value {
    const struct flag *flag;
    const char *text; /* as given; "" for a switch */
    int64_t number;   /* integer, or microseconds */
};

enum { INVOCATION_FLAGS_MAX = 160 };

struct invocation {
    const struct command *command;
    struct output *output; /* of the verb; this folder does not use it */
    struct settings *settings;
    struct arena *arena;
    const char *const *arguments; /* behind the verb, without flags */
    size_t argument_count;
    struct flag_value values[INVOCATION_FLAGS_MAX];
    size_t value_count;
    bool wants_help;    /* -h: `command` or `noun` or both may be NULL */
    bool wants_version; /* --version in place of a verb */
    const char *noun;   /* "workflow", when no verb of it was named */
};

/* Whether `name` is a flag of the command's table row or a global one. */
bool invocation_takes(const struct invocation *invocation, const char *name);
/* `name` must be a flag of the command's table row or a global one: anything else breaks an invariant. */
bool invocation_has(const struct invocation *invocation, const char *name);
/* As given; NULL when it was not. */
const char *invocation_text(const struct invocation *invocation, const char *name);
/* All values of a flag that may be given several times, in their order; *ret_count of them, in the arena. NULL: it was not
 * given, or memory ran out. */
const char *const *invocation_texts(const struct invocation *invocation, const char *name, size_t *ret_count);
/* Of VALUE_INTEGER; VALUE_DURATION in microseconds. */
int64_t invocation_number(const struct invocation *invocation, const char *name, int64_t otherwise);
/* Of VALUE_TIME; relative ones count from `now_us`, which should be the store's time. */
int64_t invocation_time(const struct invocation *invocation, const char *name, int64_t now_us, int64_t otherwise);
/* The n-th argument behind the verb, NULL when it is not there. */
const char *invocation_argument(const struct invocation *invocation, size_t n);
bool invocation_is_dry_run(const struct invocation *invocation);
/* WEIR_INVALID_ARGUMENT with the message, and the command's usage line as the hint. */
enum weir_status invocation_usage_error(const struct invocation *invocation, struct weir_error *error, const char *format,
                                        ...) WEIR_PRINTF(3, 4);

#endif
