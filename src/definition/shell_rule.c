/* The role of each argument of a command for a shell. Pure; any thread.
 *
 *   1. Find a shell by its last path component anywhere in the command, or an expression in the place of the program.
 *   2. From there read options as a shell does, with the values that belong to them ("-o pipefail").
 *   3. With -c the next argument is the script: SHELL_SCRIPT, in which no expression is allowed.
 *   4. A command that the node runs directly, or by a wrapper such as `env`, has SHELL_OPTION where an expression could
 * become an option.
 *   5. `env -S` splits a text into a command, so that text is a script too.
 *
 * In doubt an argument counts as code: a refused honest definition has a hint, a missed one would run input.
 */
#include "definition/shell_rule.h"

#include <string.h>

static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"};
/* Programs that run the command in their arguments. */
static const char *const wrappers[] = {"env",  "nice", "ionice", "nohup", "setsid", "timeout", "stdbuf",  "time",
                                       "sudo", "doas", "chroot", "xargs", "flock",  "unshare", "busybox", "taskset"};

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static bool is_among(const char *path, const char *const *words, size_t count)
{
    const char *name = last_component(path);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_shell(const char *argument)
{
    return is_among(argument, shells, sizeof shells / sizeof shells[0]);
}

/* The place of an expression that may name the program: the first argument, or one of a wrapper before any that is neither
 * an option nor a variable. `count` = there is none. */
static size_t find_chosen_program(const char *const *arguments, size_t count, bool is_wrapped)
{
    for (size_t i = 0; i < count && (i == 0 || is_wrapped); i++) {
        const char *expression = strstr(arguments[i], "${");
        const char *equals = strchr(arguments[i], '=');
        if (expression != NULL && (equals == NULL || equals > expression)) {
            return i;
        }
        if (i > 0 && arguments[i][0] != '-' && equals == NULL) {
            break;
        }
    }
    return count;
}

struct shell_options {
    bool has_script; /* -c */
    bool has_input;  /* -s */
    size_t values;   /* arguments that belong to the options before them ("-eo pipefail") */
};

/* Reads one option of a shell. False when it is none. */
static bool read_option(const char *option, struct shell_options *options)
{
    if ((option[0] != '-' && option[0] != '+') || option[1] == '\0') {
        return false;
    }
    if (strncmp(option, "--", 2) == 0) {
        options->values += strcmp(option, "--rcfile") == 0 || strcmp(option, "--init-file") == 0;
        return true;
    }
    for (const char *flag = option + 1; *flag != '\0'; flag++) {
        options->has_script = options->has_script || (*flag == 'c' && option[0] == '-');
        options->has_input = options->has_input || (*flag == 's' && option[0] == '-');
        options->values += *flag == 'o' || *flag == 'O';
    }
    return true;
}

/* Reads the options behind the shell's name, from `from` on. Returns the first argument behind them and their values.
 * *ret_is_ended: a "-" or "--" has ended them. */
static size_t skip_options(const char *const *arguments, size_t count, size_t from, struct shell_options *options,
                           bool *ret_is_ended)
{
    size_t at = from;
    *ret_is_ended = false;
    for (; at < count && !*ret_is_ended; at++) {
        if (options->values > 0) {
            options->values--;
        } else if (strcmp(arguments[at], "--") == 0 || strcmp(arguments[at], "-") == 0) {
            *ret_is_ended = true;
        } else if (!read_option(arguments[at], options)) {
            break;
        }
    }
    return at;
}

/* `from` is the argument behind the shell's name. */
static void find_script(const char *const *arguments, size_t count, size_t from, bool is_run, enum shell_role *roles)
{
    struct shell_options options = {.values = 0};
    bool is_ended = false;
    size_t at = skip_options(arguments, count, from, &options, &is_ended);
    for (size_t i = from; i < at && is_run; i++) {
        roles[i] = roles[i] == SHELL_ARGUMENT ? SHELL_OPTION : roles[i];
    }
    if (at < count && options.has_script) {
        roles[at] = SHELL_SCRIPT;
    } else if (at < count && is_run && !is_ended && roles[at] == SHELL_ARGUMENT) {
        roles[at] = SHELL_OPTION;
    }
}

/* True when the shell has neither script nor file: it runs its standard input. `from` is the argument behind its name. */
static bool reads_script_from_input(const char *const *arguments, size_t count, size_t from)
{
    static const char *const inputs[] = {"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"};
    struct shell_options options = {.values = 0};
    bool is_ended = false;
    size_t at = skip_options(arguments, count, from, &options, &is_ended);
    if (options.has_script || options.has_input || at >= count) {
        return !options.has_script;
    }
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        if (strcmp(arguments[at], inputs[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool shell_runs_its_input(const char *const *arguments, size_t count)
{
    bool is_wrapped = count > 0 && is_among(arguments[0], wrappers, sizeof wrappers / sizeof wrappers[0]);
    size_t chosen = find_chosen_program(arguments, count, is_wrapped);
    for (size_t i = 0; i < count && (i == 0 || is_wrapped); i++) {
        if ((i == chosen || is_shell(arguments[i])) && reads_script_from_input(arguments, count, i + 1)) {
            return true;
        }
    }
    return false;
}

/* `env -S 'sh -c ...'` splits a text into a command. */
static void find_split_string(const char *const *arguments, size_t count, enum shell_role *roles)
{
    static const char split[] = "--split-string";
    for (size_t at = 1; at < count && arguments[at][0] == '-'; at++) {
        const char *option = arguments[at];
        bool is_long = option[1] == '-';
        const char *flag = is_long ? NULL : strchr(option, 'S');
        if (is_long && strncmp(option, split, sizeof split - 1) == 0) {
            flag = option + sizeof split - 2;
        }
        if (flag != NULL) {
            size_t script = flag[1] == '\0' ? at + 1 : at;
            if (script < count) {
                roles[script] = SHELL_SCRIPT;
            }
            return;
        }
    }
}

void shell_find_roles(const char *const *arguments, size_t count, enum shell_role *roles)
{
    for (size_t i = 0; i < count; i++) {
        roles[i] = SHELL_ARGUMENT;
    }
    bool is_wrapped = count > 0 && is_among(arguments[0], wrappers, sizeof wrappers / sizeof wrappers[0]);
    size_t chosen = find_chosen_program(arguments, count, is_wrapped);
    for (size_t i = 0; i < count; i++) {
        if (i == chosen || is_shell(arguments[i])) {
            find_script(arguments, count, i + 1, i == 0 || is_wrapped, roles);
        }
    }
    if (count > 0 && strcmp(last_component(arguments[0]), "env") == 0) {
        if (chosen < count && (chosen == 0 || strcmp(arguments[chosen - 1], "--") != 0)) {
            roles[chosen] = SHELL_OPTION; /* it may be -S */
        }
        find_split_string(arguments, count, roles);
    }
}

bool shell_script_has_expression(const char *script, size_t length, size_t *ret_offset)
{
    for (size_t i = 0; i + 2 < length; i++) {
        if (script[i] == '$' && script[i + 1] == '{') {
            size_t at = i + 2;
            while (at < length && (script[at] == ' ' || script[at] == '\t' || script[at] == '\n')) {
                at++;
            }
            if (at < length && script[at] == '.') {
                *ret_offset = i;
                return true;
            }
        }
    }
    return false;
}
