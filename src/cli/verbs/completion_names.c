/* `weir __complete LINE`: names of the store for the completion of a shell.
 *
 * 1. The line up to the cursor is split into arguments, roughly as a shell does it.
 * 2. The arguments before the last one name the command and its flags, as in parse.c but without its checks: the line is
 * not complete yet.
 * 3. The place of the last argument decides the kind of its names: value of a flag, or argument of a command.
 * 4. The store is read under a timer. Its signal ends the process, because no other limit covers each wait on the way: a
 *    name server, a connection, a lock of the file. All names are printed at once at the end, so it prints all or none.
 *
 * A shell inserts a name as it is. Names with other bytes than letters, digits and a few signs are left out: they would
 * need the quotes of that shell, and could be a command to it. One thread.
 */
#include "cli/verbs/completion_names.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/arguments/name_kinds.h"
#include "cli/arguments/parse.h"
#include "cli/verbs/store_pages.h"
#include "store/store.h"

/* The line that is being typed, as far as it matters here. */
struct typed_line {
    const char *words[COMPLETION_WORDS_MAX]; /* behind the program's name; the last one is under the cursor */
    size_t count;
    const char *plain[COMPLETION_WORDS_MAX]; /* those before the last that are no flags */
    size_t plain_count;
    const char *store;  /* --store */
    const char *config; /* --config */
    const char *workspace;
    const struct flag *open_flag; /* whose value the last argument is */
    const char *prefix;           /* of the name */
};

/* --- the line --- */

/* Moves one argument of `from` to `to`, without its quotes, and returns the place behind it. */
static const char *take_word(const char *from, char *to)
{
    char quote = '\0';
    for (; *from != '\0' && (quote != '\0' || strchr(" \t\n", *from) == NULL); from++) {
        if (quote == '\0' && (*from == '\'' || *from == '"')) {
            quote = *from;
        } else if (*from == quote) {
            quote = '\0';
        } else {
            if (*from == '\\' && quote != '\'' && from[1] != '\0') {
                from++;
            }
            *to++ = *from;
        }
    }
    *to = '\0';
    return from;
}

/* Splits the line; the last argument is empty when the cursor stands behind a space. False: too long, or no memory. */
static bool split_line(const char *line, size_t length, struct arena *arena, struct typed_line *typed)
{
    char *copy = length > COMPLETION_LINE_BYTES_MAX ? NULL : arena_allocate(arena, length + 1);
    char *words = copy == NULL ? NULL : arena_allocate(arena, 2 * length + 2); /* each argument has a closing NUL */
    if (words == NULL) {
        return false;
    }
    memcpy(copy, line, length);
    copy[length] = '\0';
    const char *at = copy + strspn(copy, " \t\n");
    at = take_word(at, words); /* the program */
    while (*at != '\0') {
        at += strspn(at, " \t\n");
        if (typed->count == COMPLETION_WORDS_MAX) {
            return false;
        }
        typed->words[typed->count++] = words;
        at = take_word(at, words);
        words += strlen(words) + 1;
    }
    return typed->count > 0;
}

/* Keeps the value of a flag that decides what is read. */
static void keep_value(struct typed_line *typed, const struct flag *flag, const char *value)
{
    const char **to = strcmp(flag->name, "store") == 0       ? &typed->store
                      : strcmp(flag->name, "config") == 0    ? &typed->config
                      : strcmp(flag->name, "workspace") == 0 ? &typed->workspace
                                                             : NULL;
    if (to != NULL) {
        *to = value;
    }
}

/* Reads a argument that begins with a dash. Its value may be behind it in the same argument, or is the next argument. */
static void read_flag(struct typed_line *typed, const char *word, bool is_last)
{
    const char *value = NULL;
    const struct flag *flag = NULL;
    if (word[1] == '-') {
        char name[64];
        size_t length = strcspn(word + 2, "=");
        (void)snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, word + 2);
        value = word[2 + length] == '=' ? word + 3 + length : NULL;
        flag = parse_find_flag(NULL, name, '\0');
    } else if (word[1] != '\0') {
        value = word[2] != '\0' ? word + 2 : NULL;
        flag = parse_find_flag(NULL, NULL, word[1]);
    }
    if (flag == NULL || flag->type == VALUE_NONE) {
        return;
    }
    if (value == NULL) {
        typed->open_flag = is_last ? NULL : flag;
    } else if (is_last) {
        typed->open_flag = flag;
        typed->prefix = value;
    } else {
        keep_value(typed, flag, value);
    }
}

static void read_words(struct typed_line *typed)
{
    bool has_flags = true;
    typed->prefix = typed->words[typed->count - 1];
    for (size_t i = 0; i < typed->count; i++) {
        const char *word = typed->words[i];
        bool is_last = i + 1 == typed->count;
        if (typed->open_flag != NULL) {
            if (!is_last) {
                keep_value(typed, typed->open_flag, word);
                typed->open_flag = NULL;
            }
        } else if (has_flags && strcmp(word, "--") == 0) {
            has_flags = false;
        } else if (has_flags && word[0] == '-') {
            read_flag(typed, word, is_last);
        } else if (!is_last) {
            typed->plain[typed->plain_count++] = word;
        }
    }
}

/* --- kinds --- */

/* The kind of the argument under the cursor. */
static int kind_of_typed(const struct typed_line *typed)
{
    char name[64];
    if (typed->open_flag != NULL) {
        return name_kind_of_flag(typed->open_flag);
    }
    if (typed->plain_count == 0 || typed->prefix[0] == '-') {
        return NO_NAMES;
    }
    size_t words = 1;
    const struct command *command = command_find(typed->plain[0]);
    if (command == NULL && typed->plain_count > 1) {
        (void)snprintf(name, sizeof name, "%.30s %.30s", typed->plain[0], typed->plain[1]);
        command = command_find(name);
        words = 2;
    }
    if (command == NULL) {
        return NO_NAMES;
    }
    return name_kind_of_argument(command, typed->plain_count - words);
}

/* --- names --- */

struct found_names {
    enum store_list_kind kind;
    const char *prefix;
    struct text text;
    size_t count;
};

/* Adds the name of a row, unless it does not fit what is typed. False: there are enough. */
static bool completion_add_name(void *context, const json_t *row)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@%/";
    struct found_names *found = context;
    const char *name = json_string_value(json_object_get(row, found->kind == LIST_EXECUTIONS ? "id" : "name"));
    bool is_offered = name != NULL && name[0] != '\0' && name[0] != '-' && name[strspn(name, bytes)] == '\0' &&
                      strncmp(name, found->prefix, strlen(found->prefix)) == 0 &&
                      (found->kind != LIST_NODES || row_node_is_live(row));
    if (is_offered) {
        if (text_format(&found->text, "%s\n", name) != WEIR_OK) {
            return false;
        }
        found->count++;
    }
    return found->count < COMPLETION_NAMES_MAX;
}

/* Reads the names. Of executions only the newest page: their ids are typed soon after they were made. */
static void completion_read_names(struct store *store, const struct typed_line *typed, struct found_names *found)
{
    struct list_options options = {.kind = found->kind};
    json_t *page = NULL;
    size_t i;
    json_t *row;
    if (found->kind != LIST_EXECUTIONS) {
        if (store_list_each(store, &options, completion_add_name, found, NULL) != WEIR_OK) {
            text_clear(&found->text);
        }
        return;
    }
    options.limit = LIST_LIMIT_MOST;
    options.filter.workspace = typed->workspace;
    if (store_list(store, &options, &page, NULL) == WEIR_OK) {
        json_array_foreach(json_object_get(page, "items"), i, row)
        {
            (void)completion_add_name(found, row);
        }
    }
    json_decref(page);
}

/* The settings, under the flags of the line. */
static enum weir_status read_settings(const struct typed_line *typed, struct arena *arena, struct settings *settings)
{
    enum weir_status status = settings_load(settings, arena, typed->config, NULL);
    if (status == WEIR_OK && typed->store != NULL) {
        status = settings_set(settings, SETTING_STORE, typed->store, "--store", NULL);
    }
    return status;
}

/* The deadline: nothing was printed yet, and the process has only read. */
static void end_without_names(int number)
{
    (void)number;
    _exit(0);
}

/* No time is left out: the wait for a name server or a lock counts as well. */
static void start_deadline(void)
{
    struct itimerval deadline = {.it_value = {.tv_usec = COMPLETION_DEADLINE_US}};
    struct sigaction action = {.sa_handler = end_without_names};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)setitimer(ITIMER_REAL, &deadline, NULL);
}

bool completion_is_asked(size_t count, const char *const *arguments)
{
    return count > 0 && strcmp(arguments[0], "__complete") == 0;
}

int completion_print_names(size_t count, const char *const *arguments, struct arena *arena)
{
    struct typed_line typed = {.count = 0};
    struct settings settings = {.arena = arena};
    struct store *store = NULL;
    const char *line = count > 1 ? arguments[1] : "";
    if (!split_line(line, strlen(line), arena, &typed)) {
        return 1;
    }
    read_words(&typed);
    int kind = kind_of_typed(&typed);
    if (kind == NO_NAMES) {
        return 1;
    }
    struct found_names found = {.kind = (enum store_list_kind)kind, .prefix = typed.prefix, .text = {.max = 1024 * 1024}};
    start_deadline();
    if (read_settings(&typed, arena, &settings) == WEIR_OK) {
        struct store_options options = {.url = settings_text(&settings, SETTING_STORE),
                                        .token_file = settings_text_or_null(&settings, SETTING_HTTP_TOKEN_FILE),
                                        .ca_file = settings_text_or_null(&settings, SETTING_HTTP_CA_FILE),
                                        .read_only = true,
                                        .deadline_us = COMPLETION_DEADLINE_US};
        if (store_open(&options, &store, NULL) == WEIR_OK && store_require_schema(store, NULL) == WEIR_OK) {
            completion_read_names(store, &typed, &found);
        }
        store_close(store);
    }
    (void)setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = 0}}, NULL); /* all names or none */
    if (found.text.length > 0) {
        (void)fwrite(found.text.data, 1, found.text.length, stdout);
    }
    text_close(&found.text);
    (void)fflush(stdout);
    return 0;
}
