/* From the arguments of the process to a checked invocation, in two passes.
 *
 * 1. collect_arguments() separates flags from other arguments. A flag is looked up in the whole table, because the verb
 *    may stand behind it; the lookup only decides whether a value follows.
 * 2. find_command() finds the verb. Then each flag is checked against the command's own row and its value is read.
 *
 * Example: `weir -w acme workspace pause --reason audit`. The first pass finds that -w takes "acme" and --reason takes
 * "audit". The plain arguments "workspace pause" then name the command, and the second pass checks that it has both flags.
 *
 * Two passes let flags stand anywhere, before or behind the verb. Each error is WEIR_INVALID_ARGUMENT with the nearest
 * right spelling as a hint. No global state, no output, no access to files. One thread.
 */
#include "cli/arguments/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/filter.h"

/* A flag as it was typed, before its command is known. */
struct typed_flag {
    const char *spelling; /* "--limit" or "-l" */
    const char *name;     /* "limit" */
    const char *value;    /* NULL for a switch */
};

/* The state of the first pass. `plain` and the invocation live in the arena of the invocation. */
struct argument_reader {
    struct invocation *invocation;
    const char *const *all;
    size_t count;
    size_t at;
    const char **plain; /* arguments that are no flags */
    size_t plain_count;
    struct typed_flag flags[INVOCATION_FLAGS_MAX];
    size_t flag_count;
};

/* Names that users try, and the command that they mean. */
static const char *const synonyms[][2] = {
    {"ls", "list"},
    {"cron", "schedule"},
    {"crontab", "schedule"},
    {"ps", "list"},
    {"get", "show"},
    {"describe", "show"},
    {"inspect", "show"},
    {"result", "show"},
    {"events", "show"},
    {"history", "show"},
    {"usage", "workspace show"},
    {"start", "enqueue"},
    {"run", "enqueue"},
    {"submit", "enqueue"},
    {"add", "enqueue"},
    {"push", "enqueue"},
    {"kill", "cancel"},
    {"stop", "cancel"},
    {"rm", "purge"},
    {"delete", "purge"},
    {"remove", "purge"},
    {"init", "store init"},
    {"migrate", "store migrate"},
    {"backup", "store backup"},
    {"apply", "workflow apply"},
    {"publish", "workflow apply"},
    {"lint", "workflow apply --dry-run"},
    {"validate", "workflow apply --dry-run"},
    {"server", "serve"},
    {"daemon", "serve"},
    {"worker", "serve"},
    {"log", "logs"},
    {"health", "doctor"},
    {"check", "doctor"},
    {"drain", "node drain"},
    {"metrics", "status --metrics"},
};

/* The same of verbs behind a noun, where the noun has such a verb. Of several rows the first one with an existing
 * command counts: the meaning of `lint` depends on the noun. A flag may follow the verb that is meant, as the check of a
 * definition is a dry run. */
static const char *const verb_synonyms[][2] = {
    {"add", "set"},
    {"create", "set"},
    {"make", "set"},
    {"new", "set"},
    {"ls", "list"},
    {"get", "show"},
    {"info", "show"},
    {"describe", "show"},
    {"rm", "delete"},
    {"remove", "delete"},
    {"fire", "trigger"},
    {"run", "trigger"},
    {"start", "trigger"},
    {"disable", "pause"},
    {"suspend", "pause"},
    {"enable", "resume"},
    {"unpause", "resume"},
    {"publish", "apply"},
    {"lint", "apply --dry-run"},
    {"check", "apply --dry-run"},
    {"validate", "apply --dry-run"},
    {"lint", "check"},
    {"validate", "check"},
};

/* Names that users try for a flag, and the flag: names of fields in other tools. A row counts only for commands that have
 * the flag. */
static const char *const flag_synonyms[][2] = {
    {"group", "executor-group"}, {"state", "status"},   {"at", "run-at"},     {"delay", "run-at"}, {"in", "run-at"},
    {"after", "run-at"},         {"time-zone", "zone"}, {"timezone", "zone"}, {"tz", "zone"},
};

/* --- the table of flags --- */

/* By its name, or by its letter where `name` is NULL. The list ends at a row without a name, or at `most`. */
static const struct flag *find_flag_in(const struct flag *flags, size_t most, const char *name, char letter)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        if (name != NULL ? strcmp(flags[i].name, name) == 0 : flags[i].letter == letter) {
            return &flags[i];
        }
    }
    return NULL;
}

/* The flags of all commands go before those of one. Without a command the first flag of that name in the table decides
 * whether a value follows. A test checks that all flags of one name agree in that. */
const struct flag *parse_find_flag(const struct command *command, const char *name, char letter)
{
    const struct flag *found = find_flag_in(command_global_flags(), INVOCATION_FLAGS_MAX, name, letter);
    if (found != NULL || command != NULL) {
        return found != NULL ? found : find_flag_in(command->flags, COMMAND_FLAGS_MAX, name, letter);
    }
    size_t count;
    const struct command *all = command_table(&count);
    for (size_t i = 0; i < count && found == NULL; i++) {
        found = find_flag_in(all[i].flags, COMMAND_FLAGS_MAX, name, letter);
    }
    return found;
}

/* Collects the names of flags, as candidates for a suggestion. */
static size_t add_flag_names(const struct flag *flags, size_t most, const char **names, size_t count)
{
    for (size_t i = 0; i < most && flags[i].name != NULL && count < COMMAND_TRIES_MAX; i++) {
        names[count++] = flags[i].name;
    }
    return count;
}

/* The command that the arguments before a flag name, for messages about the flag; NULL when they name none yet. */
static const struct command *command_before_flag(const struct argument_reader *reader)
{
    char name[64]; /* longer than any */
    if (reader->plain_count == 0) {
        return NULL;
    }
    const struct command *command = command_find(reader->plain[0]);
    if (command == NULL && reader->plain_count > 1) {
        (void)snprintf(name, sizeof name, "%s %s", reader->plain[0], reader->plain[1]);
        command = command_find(name);
    }
    return command;
}

/* Names the nearest flag of the command, or the key of --where that has the name. */
static enum weir_status refuse_unknown_flag(const struct command *command, const char *spelling, const char *name,
                                            struct weir_error *error)
{
    const char *names[COMMAND_TRIES_MAX];
    size_t count = add_flag_names(command_global_flags(), INVOCATION_FLAGS_MAX, names, 0);
    if (command != NULL) {
        count = add_flag_names(command->flags, COMMAND_FLAGS_MAX, names, count);
    } else {
        size_t commands;
        const struct command *all = command_table(&commands);
        for (size_t i = 0; i < commands; i++) {
            count = add_flag_names(all[i].flags, COMMAND_FLAGS_MAX, names, count);
        }
    }
    const char *nearest = text_nearest(name, names, count);
    for (size_t i = 0; i < sizeof flag_synonyms / sizeof flag_synonyms[0]; i++) {
        bool is_meant =
            strcmp(name, flag_synonyms[i][0]) == 0 && parse_find_flag(command, flag_synonyms[i][1], '\0') != NULL;
        nearest = is_meant ? flag_synonyms[i][1] : nearest;
    }
    const char *key = command != NULL && parse_find_flag(command, "where", '\0') != NULL ? filter_key_of_flag(name) : NULL;
    error_set(error, WEIR_INVALID_ARGUMENT, "%s%s%s has no flag %s", command != NULL ? "`weir " : "weir",
              command != NULL ? command->name : "", command != NULL ? "`" : "", spelling);
    if (key != NULL) {
        error_hint(error, "did you mean --where '%s=...'?", key);
    } else if (nearest != NULL) {
        error_hint(error, "did you mean --%s?", nearest);
    } else {
        error_hint(error, "see `weir help%s%s`", command != NULL ? " " : "", command != NULL ? command->name : "");
    }
    return WEIR_INVALID_ARGUMENT;
}

/* --- first pass: arguments and flags --- */

/* "-" alone stands for stdin, and "-5" is a number: neither is a flag. */
static bool has_form_of_flag(const char *text)
{
    return text[0] == '-' && text[1] != '\0' && !(text[1] >= '0' && text[1] <= '9');
}

/* Copies a part of an argument, so that messages can spell the flag as it was typed. */
static const char *copy_argument_part(struct argument_reader *reader, const char *text, size_t length)
{
    return arena_copy(reader->invocation->arena, text, length);
}

/* Adds one flag. `value` is the text behind '=' or the letter. When it is NULL and the flag needs a value, the next
 * argument is the value. */
static enum weir_status add_typed_flag(struct argument_reader *reader, const char *spelling, const char *name,
                                       const struct flag *flag, const char *value, struct weir_error *error)
{
    if (reader->flag_count == INVOCATION_FLAGS_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "more than %d flags", INVOCATION_FLAGS_MAX);
    }
    if (flag->type == VALUE_NONE && value != NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s takes no value, got \"%s\"", spelling, value);
    }
    if (flag->type != VALUE_NONE && value == NULL) {
        if (reader->at == reader->count || has_form_of_flag(reader->all[reader->at])) {
            error_set(error, WEIR_INVALID_ARGUMENT, "%s needs a value: %s", spelling, flag->value);
            error_hint(error, "%s %s: %s%s", spelling, flag->value, flag->help,
                       reader->at < reader->count ? "; a value that begins with - is given as --flag=VALUE" : "");
            return WEIR_INVALID_ARGUMENT;
        }
        value = reader->all[reader->at++];
    }
    /* --workspace "$WS" without the variable must not mean all workspaces. */
    if (value != NULL && value[0] == '\0') {
        error_set(error, WEIR_INVALID_ARGUMENT, "%s is empty", spelling);
        error_hint(error, "a variable of the shell may be unset; leave out %s if it has no value", spelling);
        return WEIR_INVALID_ARGUMENT;
    }
    reader->flags[reader->flag_count++] = (struct typed_flag){.spelling = spelling, .name = name, .value = value};
    return WEIR_OK;
}

/* "--name", "--name=VALUE" or "--name VALUE". */
static enum weir_status take_long_flag(struct argument_reader *reader, const char *text, struct weir_error *error)
{
    const char *equals = strchr(text, '=');
    size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text);
    const char *spelling = copy_argument_part(reader, text, length);
    if (spelling == NULL) {
        return error_out_of_memory(error);
    }
    const char *name = spelling + 2;
    if (strcmp(name, "version") == 0 && equals == NULL) {
        reader->invocation->wants_version = true;
        return WEIR_OK;
    }
    const struct flag *flag = parse_find_flag(NULL, name, 0);
    if (flag == NULL) {
        return refuse_unknown_flag(command_before_flag(reader), spelling, name, error);
    }
    return add_typed_flag(reader, spelling, name, flag, equals != NULL ? equals + 1 : NULL, error);
}

/* "-w acme", "-wacme", "-w=acme", "-qy". */
static enum weir_status take_letter_flags(struct argument_reader *reader, const char *text, struct weir_error *error)
{
    for (size_t i = 1; text[i] != '\0'; i++) {
        char letter[] = {'-', text[i], '\0'};
        const char *spelling = copy_argument_part(reader, letter, 2);
        if (spelling == NULL) {
            return error_out_of_memory(error);
        }
        if (text[i] == 'V' && i == 1 && text[2] == '\0') {
            reader->invocation->wants_version = true;
            return WEIR_OK;
        }
        const struct flag *flag = parse_find_flag(NULL, NULL, text[i]);
        if (flag == NULL) {
            return refuse_unknown_flag(command_before_flag(reader), spelling, "", error);
        }
        const char *rest = text + i + 1;
        bool takes_rest = flag->type != VALUE_NONE && rest[0] != '\0';
        enum weir_status status =
            add_typed_flag(reader, spelling, flag->name, flag, takes_rest ? rest + (rest[0] == '=') : NULL, error);
        if (status != WEIR_OK || takes_rest) {
            return status;
        }
    }
    return WEIR_OK;
}

/* The first pass: sorts the arguments into flags and others. "--" ends the flags. */
static enum weir_status collect_arguments(struct argument_reader *reader, struct weir_error *error)
{
    bool flags_ended = false;
    for (size_t i = 0; i < reader->count; i++) {
        if (!text_is_utf8(reader->all[i], strlen(reader->all[i]))) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not UTF-8", reader->all[i]);
        }
    }
    while (reader->at < reader->count) {
        const char *text = reader->all[reader->at++];
        enum weir_status status = WEIR_OK;
        if (flags_ended || text[0] != '-' || text[1] == '\0') {
            reader->plain[reader->plain_count++] = text;
        } else if (strcmp(text, "--") == 0) {
            flags_ended = true;
        } else {
            status = text[1] == '-' ? take_long_flag(reader, text, error) : take_letter_flags(reader, text, error);
        }
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

/* --- second pass: the command --- */

/* Whether the text is the noun of commands like "workspace list". */
static bool is_noun(const char *text, size_t length)
{
    size_t count;
    const struct command *all = command_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(all[i].name, text, length) == 0 && all[i].name[length] == ' ') {
            return true;
        }
    }
    return false;
}

/* The verb of the noun that users of other programs mean; NULL = none. `prefix`: the noun and a space. */
static const char *find_verb_synonym(const char *typed, const char *prefix)
{
    for (size_t i = 0; prefix[0] != '\0' && i < sizeof verb_synonyms / sizeof verb_synonyms[0]; i++) {
        char name[64];
        const char *meant = verb_synonyms[i][1];
        (void)snprintf(name, sizeof name, "%s%.*s", prefix, (int)strcspn(meant, " "), meant);
        if (strcmp(verb_synonyms[i][0], typed) == 0 && command_find(name) != NULL) {
            return meant;
        }
    }
    return NULL;
}

/* A hook and a webhook have one list and the same acts, except the one that sets them. */
static bool is_verb_of_hooks(const char *typed)
{
    char name[64];
    (void)snprintf(name, sizeof name, "hook %s", typed);
    return command_find(name) != NULL;
}

/* "apply | list | show": the verbs of a noun. `prefix`: the noun and a space. */
static void list_verbs(const char *prefix, char *to, size_t size)
{
    size_t used = 0;
    size_t count;
    size_t length = strlen(prefix);
    const struct command *all = command_table(&count);
    to[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        if (strncmp(all[i].name, prefix, length) == 0) {
            int added = snprintf(to + used, size - used, "%s%s", used > 0 ? " | " : "", all[i].name + length);
            used += added > 0 ? (size_t)added : 0;
        }
    }
}

/* Suggests a synonym, or the nearest command, or the verbs of the noun, or the help. */
static void hint_at_command(const char *typed, const char *prefix, struct weir_error *error)
{
    char verbs[256];
    const char *names[COMMAND_TRIES_MAX];
    size_t count;
    size_t used = 0;
    const struct command *all = command_table(&count);
    for (size_t i = 0; prefix[0] == '\0' && i < sizeof synonyms / sizeof synonyms[0]; i++) {
        if (strcmp(synonyms[i][0], typed) == 0) {
            error_hint(error, "did you mean `weir %s`?", synonyms[i][1]);
            return;
        }
    }
    size_t skip = strlen(prefix);
    for (size_t i = 0; i < count && used < COMMAND_TRIES_MAX; i++) {
        if (strncmp(all[i].name, prefix, skip) == 0) {
            names[used++] = all[i].name + skip;
        }
    }
    static const char *const nouns[] = {"workflow", "workspace", "plan",     "node",  "lock",   "token",   "hook",
                                        "webhook",  "worker",    "temporal", "store", "config", "schedule"};
    for (size_t i = 0; skip == 0 && i < sizeof nouns / sizeof nouns[0] && used < COMMAND_TRIES_MAX; i++) {
        names[used++] = nouns[i];
    }
    const char *synonym = find_verb_synonym(typed, prefix);
    const char *nearest = synonym != NULL ? synonym : text_nearest(typed, names, used);
    if (nearest != NULL) {
        error_hint(error, "did you mean `weir %s%s`?", prefix, nearest);
    } else if (strcmp(prefix, "webhook ") == 0 && is_verb_of_hooks(typed)) {
        error_hint(error, "a webhook is a hook: `weir hook %s`", typed);
    } else if (skip > 0) {
        list_verbs(prefix, verbs, sizeof verbs);
        error_hint(error, "its verbs are: %s; see `weir help %.*s`", verbs, (int)(skip - 1), prefix);
    } else {
        error_hint(error, "see `weir help`");
    }
}

/* Lists the verbs of a noun in the hint. */
static enum weir_status refuse_noun_alone(const char *noun, struct weir_error *error)
{
    char prefix[64];
    char verbs[256];
    (void)snprintf(prefix, sizeof prefix, "%s ", noun);
    list_verbs(prefix, verbs, sizeof verbs);
    error_set(error, WEIR_INVALID_ARGUMENT, "`weir %s` needs a verb", noun);
    error_hint(error, "usage: weir %s %s", noun, verbs);
    return WEIR_INVALID_ARGUMENT;
}

/* Finds the command, and the number of plain arguments that name it. */
static enum weir_status find_command(struct argument_reader *reader, size_t *ret_used, struct weir_error *error)
{
    char name[64];
    const char *first = reader->plain[0];
    const struct command *command = strchr(first, ' ') == NULL ? command_find(first) : NULL;
    if (command != NULL) {
        reader->invocation->command = command;
        *ret_used = 1;
        return WEIR_OK;
    }
    if (!is_noun(first, strlen(first))) {
        error_set(error, WEIR_INVALID_ARGUMENT, "weir has no command \"%s\"", first);
        hint_at_command(first, "", error);
        return WEIR_INVALID_ARGUMENT;
    }
    reader->invocation->noun = first;
    *ret_used = 1;
    if (reader->plain_count == 1) {
        return reader->invocation->wants_help ? WEIR_OK : refuse_noun_alone(first, error);
    }
    (void)snprintf(name, sizeof name, "%s %s", first, reader->plain[1]);
    command = command_find(name);
    if (command == NULL) {
        char prefix[64];
        (void)snprintf(prefix, sizeof prefix, "%s ", first);
        error_set(error, WEIR_INVALID_ARGUMENT, "`weir %s` has no verb \"%s\"", first, reader->plain[1]);
        hint_at_command(reader->plain[1], prefix, error);
        return WEIR_INVALID_ARGUMENT;
    }
    reader->invocation->command = command;
    *ret_used = 2;
    return WEIR_OK;
}

/* --- second pass: values --- */

/* A whole number in decimal digits, within the bounds of the flag. A sign "+" and blanks in front are refused, which
 * strtoll() alone would accept. */
static enum weir_status read_integer_flag(const struct typed_flag *typed, const struct flag *flag, int64_t *ret_number,
                                          struct weir_error *error)
{
    char *end = NULL;
    long long number = strtoll(typed->value, &end, 10);
    bool begins_well = typed->value[0] == '-' || (typed->value[0] >= '0' && typed->value[0] <= '9');
    if (!begins_well || *end != '\0') {
        error_set(error, WEIR_INVALID_ARGUMENT, "%s: \"%s\" is not a whole number", typed->spelling, typed->value);
    } else if (number < flag->least || number > flag->most) {
        error_set(error, WEIR_INVALID_ARGUMENT, "%s: %s is out of range", typed->spelling, typed->value);
    } else {
        *ret_number = number;
        return WEIR_OK;
    }
    if (flag->most == INT64_MAX) {
        error_hint(error, "give a number of at least %lld", (long long)flag->least);
    } else {
        error_hint(error, "give a number from %lld to %lld", (long long)flag->least, (long long)flag->most);
    }
    return WEIR_INVALID_ARGUMENT;
}

/* Checks that the value is one of the choices of the flag. */
static enum weir_status read_choice_flag(const struct typed_flag *typed, const struct flag *flag, struct arena *arena,
                                         struct weir_error *error)
{
    const char *known[16];
    size_t count = 0;
    char *choices = arena_copy_string(arena, flag->choices);
    if (choices == NULL) {
        return error_out_of_memory(error);
    }
    char *rest = NULL;
    for (char *choice = strtok_r(choices, " ", &rest); choice != NULL && count < 16; choice = strtok_r(NULL, " ", &rest)) {
        if (strcmp(choice, typed->value) == 0) {
            return WEIR_OK;
        }
        known[count++] = choice;
    }
    const char *nearest = text_nearest(typed->value, known, count);
    error_set(error, WEIR_INVALID_ARGUMENT, "%s: \"%s\" is not one of: %s", typed->spelling, typed->value, flag->choices);
    if (nearest != NULL) {
        error_hint(error, "did you mean %s?", nearest);
    }
    return WEIR_INVALID_ARGUMENT;
}

/* Reads the value by the type of the flag. Relative times are read again later, against the clock of the store. */
static enum weir_status read_flag_value(const struct typed_flag *typed, const struct flag *flag, struct arena *arena,
                                        int64_t *ret_number, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (flag->type == VALUE_NONE) {
        return WEIR_OK;
    }
    INVARIANT(typed->value != NULL); /* add_typed_flag() has checked it */
    switch (flag->type) {
    case VALUE_NONE:
    case VALUE_TEXT:
        return WEIR_OK;
    case VALUE_INTEGER:
        return read_integer_flag(typed, flag, ret_number, error);
    case VALUE_CHOICE:
        return read_choice_flag(typed, flag, arena, error);
    case VALUE_DURATION:
        status = duration_parse(typed->value, ret_number, error);
        break;
    case VALUE_TIME:
        status = time_parse(typed->value, clock_wall(clock_system()), ret_number, error);
        break;
    }
    if (status != WEIR_OK) {
        error_prefix(error, "%s", typed->spelling);
    }
    return status;
}

/* The second pass for one flag: the command must have it, once, with a valid value. */
static enum weir_status check_flag(struct invocation *invocation, const struct typed_flag *typed, struct weir_error *error)
{
    const struct command *command = invocation->command;
    const struct flag *flag = parse_find_flag(command, typed->name, 0);
    if (flag == NULL) {
        return refuse_unknown_flag(command, typed->spelling, typed->name, error);
    }
    if (strcmp(flag->name, "dry-run") == 0 && (command->marks & COMMAND_NO_DRY_RUN) != 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "`weir %s` has no --dry-run", command->name);
    }
    if (strcmp(flag->name, "timeout") == 0 && (command->marks & COMMAND_NO_TIMEOUT) != 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "`weir %s` has no --timeout", command->name);
        error_hint(error, "a node runs until it is stopped; `timeout` in a definition bounds its executions");
        return WEIR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < invocation->value_count; i++) {
        if (invocation->values[i].flag == flag && !flag->many) {
            error_set(error, WEIR_INVALID_ARGUMENT, "%s is given twice", typed->spelling);
            error_hint(error, "give the flag once");
            return WEIR_INVALID_ARGUMENT;
        }
    }
    /* Only flags that may be given several times can fill the array. */
    if (invocation->value_count == INVOCATION_FLAGS_MAX) {
        error_set(error, WEIR_INVALID_ARGUMENT, "%s is given too often", typed->spelling);
        error_hint(error, "a command takes at most %d flags", INVOCATION_FLAGS_MAX);
        return WEIR_INVALID_ARGUMENT;
    }
    struct flag_value value = {.flag = flag, .text = typed->value != NULL ? typed->value : ""};
    enum weir_status status = read_flag_value(typed, flag, invocation->arena, &value.number, error);
    if (status == WEIR_OK) {
        invocation->values[invocation->value_count++] = value;
    }
    return status;
}

/* Checks the number of arguments against the row of the command. */
static enum weir_status check_arguments(const struct invocation *invocation, struct weir_error *error)
{
    const struct argument *arguments = invocation->command->arguments;
    size_t least = 0;
    size_t most = 0;
    for (size_t i = 0; i < COMMAND_ARGUMENTS_MAX && arguments[i].name != NULL; i++) {
        /* Only arguments at the end may be left out. */
        least += arguments[i].optional ? 0 : 1;
        most = arguments[i].many ? COMMAND_WORDS_MAX : most + 1;
    }
    if (invocation->argument_count < least) {
        return invocation_usage_error(invocation, error, "`weir %s` needs %s", invocation->command->name,
                                      arguments[invocation->argument_count].name);
    }
    if (invocation->argument_count > most) {
        return invocation_usage_error(invocation, error, "`weir %s` does not take \"%s\"", invocation->command->name,
                                      invocation->arguments[most]);
    }
    for (size_t i = 0; i < invocation->argument_count; i++) {
        if (invocation->arguments[i][0] == '\0') {
            return invocation_usage_error(invocation, error, "argument %zu of `weir %s` is empty", i + 1,
                                          invocation->command->name);
        }
    }
    return WEIR_OK;
}

/* --json is short for -o json, so another -o contradicts it. */
static enum weir_status check_formats(const struct invocation *invocation, struct weir_error *error)
{
    const char *format = invocation_text(invocation, "output");
    if (format != NULL && invocation_has(invocation, "json") && strcmp(format, "json") != 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "--json and -o %s contradict each other", format);
    }
    return WEIR_OK;
}

/* Whether -h was given anywhere: then nothing else is checked. */
static bool is_help_wanted(const struct argument_reader *reader)
{
    for (size_t i = 0; i < reader->flag_count; i++) {
        if (strcmp(reader->flags[i].name, "help") == 0) {
            return true;
        }
    }
    return false;
}

/* 1. Take the arguments apart (first pass). 2. Find the command; a wish for help or for the version ends here, because
 * nothing else has to be right then. 3. Check each flag, then the formats together, then the number of arguments: a flag is
 * the likelier mistake, and its message the more precise one. */
enum weir_status command_parse(struct invocation *invocation, size_t count, const char *const *arguments,
                               struct weir_error *error)
{
    struct argument_reader reader = {.invocation = invocation, .all = arguments, .count = count};
    size_t used = 0;
    if (count > COMMAND_WORDS_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "more than %d arguments", COMMAND_WORDS_MAX);
    }
    reader.plain = arena_allocate(invocation->arena, (count + 1) * sizeof *reader.plain);
    if (reader.plain == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = collect_arguments(&reader, error);
    if (status != WEIR_OK) {
        return status;
    }
    invocation->wants_help = is_help_wanted(&reader);
    if (reader.plain_count > 0) {
        status = find_command(&reader, &used, error);
    } else if (count == 0) {
        invocation->wants_help = true; /* `weir` alone is a question */
    } else if (!invocation->wants_help && !invocation->wants_version) {
        error_set(error, WEIR_INVALID_ARGUMENT, "no command was given");
        error_hint(error, "see `weir help`");
        status = WEIR_INVALID_ARGUMENT;
    }
    if (status != WEIR_OK || invocation->command == NULL || invocation->wants_help) {
        return status;
    }
    invocation->wants_version = false;
    invocation->arguments = reader.plain + used;
    invocation->argument_count = reader.plain_count - used;
    for (size_t i = 0; i < reader.flag_count && status == WEIR_OK; i++) {
        status = check_flag(invocation, &reader.flags[i], error);
    }
    if (status == WEIR_OK) {
        status = check_formats(invocation, error);
    }
    return status == WEIR_OK ? check_arguments(invocation, error) : status;
}

/* For an error of command_parse() itself: the format of the message must be known although the command is not. */
bool command_asks_for_json(size_t count, const char *const *arguments)
{
    for (size_t i = 0; i < count && strcmp(arguments[i], "--") != 0; i++) {
        if (strcmp(arguments[i], "--json") == 0 || strcmp(arguments[i], "-ojson") == 0 ||
            strcmp(arguments[i], "--output=json") == 0 || strcmp(arguments[i], "-ojsonl") == 0 ||
            strcmp(arguments[i], "--output=jsonl") == 0) {
            return true;
        }
        bool value_follows = strcmp(arguments[i], "-o") == 0 || strcmp(arguments[i], "--output") == 0;
        if (value_follows && i + 1 < count && strncmp(arguments[i + 1], "json", 4) == 0) {
            return true;
        }
    }
    return false;
}
