/* The help for a terminal: the overview, a noun, one command.
 *
 * Texts are wrapped to HELP_COLUMNS columns on every terminal, so that help in a pipe reads the same. The example
 * comes first, then usage, arguments, flags and details. Each function appends to the caller's text; the first failure
 * sticks in struct text_page. Pure.
 */
#include "cli/help/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/arguments/invocation.h"
#include "cli/output/text_page.h"

enum { FLAG_COLUMN = 28, VERB_COLUMN = 20 };

static const struct exit_code exit_codes[] = {
    {0, "done"},
    {1, "the command failed, or the execution that it waited for failed"},
    {2, "wrong usage, settings, params or definition"},
    {3, "not found"},
    {4, "refused: conflict, wrong state, --expect does not match"},
    {5, "not permitted"},
    {6, "the store or the engine cannot be used"},
    {7, "--timeout is over"},
    {130, "interrupted"},
    {0, NULL},
};

const struct exit_code *help_exit_codes(void)
{
    return exit_codes;
}

/* Adds a text from column `at` on. Breaks lines before HELP_COLUMNS and indents the next lines by `indent`. */
static void add_wrapped(struct text_page *page, const char *words, size_t at, size_t indent)
{
    size_t column = at;
    while (*words != '\0') {
        size_t length = strcspn(words, " \n");
        char word[128];
        (void)snprintf(word, sizeof word, "%.*s", (int)length, words);
        size_t columns = text_columns(word);
        if (column > indent && column + 1 + columns > HELP_COLUMNS) {
            text_page_add(page, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > at || (column > indent && at == indent)) {
            text_page_add(page, " ");
            column++;
        }
        text_page_add(page, "%s", word);
        column += columns;
        words += length;
        if (*words == '\n') {
            text_page_add(page, "\n%*s", (int)indent, "");
            column = indent;
            at = indent;
        }
        words += *words != '\0';
    }
    text_page_add(page, "\n");
}

/* Adds a name and its help in two columns. A long name gets a line of its own. */
static void add_help_item(struct text_page *page, const char *left, const char *help, size_t column)
{
    size_t width = text_columns(left);
    text_page_add(page, "  %s", left);
    if (width + 4 > column) {
        text_page_add(page, "\n%*s", (int)column, "");
    } else {
        text_page_add(page, "%*s", (int)(column - width - 2), "");
    }
    add_wrapped(page, help, column, column);
}

/* "-w, --workspace NAME". */
static void spell_flag(const struct flag *flag, char *to, size_t size)
{
    char letter[8] = "    ";
    if (flag->letter != 0) {
        (void)snprintf(letter, sizeof letter, "-%c, ", flag->letter);
    }
    (void)snprintf(to, size, "%s--%s%s%s", letter, flag->name, flag->type != VALUE_NONE ? " " : "",
                   flag->type != VALUE_NONE ? flag->value : "");
}

static bool command_refuses(const struct command *command, const char *flag)
{
    unsigned marks = command == NULL ? 0 : command->marks;
    return ((marks & COMMAND_NO_DRY_RUN) != 0 && strcmp(flag, "dry-run") == 0) ||
           ((marks & COMMAND_NO_TIMEOUT) != 0 && strcmp(flag, "timeout") == 0);
}

/* Adds flags, without those that the command refuses. */
static void add_help_flags(struct text_page *page, const struct flag *flags, size_t most, const struct command *command)
{
    char left[64];
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        if (!command_refuses(command, flags[i].name)) {
            spell_flag(&flags[i], left, sizeof left);
            add_help_item(page, left, flags[i].help, FLAG_COLUMN);
        }
    }
}

/* Each line of the example, indented by two; a line that is too long is broken with a backslash, as a shell would take it.
 */
static void add_example(struct text_page *page, const char *example)
{
    while (*example != '\0') {
        size_t length = strcspn(example, "\n");
        const char *line = example;
        size_t left = length;
        size_t indent = 2;
        while (left + indent > HELP_COLUMNS) {
            size_t cut = HELP_COLUMNS - indent - 2;
            while (cut > 0 && line[cut] != ' ') {
                cut--;
            }
            text_page_add(page, "%*s%.*s \\\n", (int)indent, "", (int)cut, line);
            line += cut + 1;
            left -= cut + 1;
            indent = 6;
        }
        text_page_add(page, "%*s%.*s\n", (int)indent, "", (int)left, line);
        example += length + (example[length] == '\n');
    }
}

enum weir_status help_command(const struct command *command, struct text *to)
{
    struct text_page page = {.to = to};
    char usage[128];
    text_page_add(&page, "example:\n");
    add_example(&page, command->example);
    command_usage(command, usage, sizeof usage);
    text_page_add(&page, "\nusage: %s\n%s.\n", usage, command->summary);
    if (command->arguments[0].name != NULL) {
        text_page_add(&page, "\n");
    }
    for (size_t i = 0; i < COMMAND_ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
        add_help_item(&page, command->arguments[i].name, command->arguments[i].help, FLAG_COLUMN);
    }
    if (command->flags[0].name != NULL) {
        text_page_add(&page, "\nflags:\n");
        add_help_flags(&page, command->flags, COMMAND_FLAGS_MAX, NULL);
    }
    text_page_add(&page, "\nflags of every command:\n");
    add_help_flags(&page, command_global_flags(), INVOCATION_FLAGS_MAX, command);
    if (command->details != NULL) {
        text_page_add(&page, "\n");
        add_wrapped(&page, command->details, 0, 0);
    }
    return page.status;
}

enum weir_status help_noun(const char *noun, struct text *to)
{
    struct text_page page = {.to = to};
    size_t count;
    size_t length = strlen(noun);
    const struct command *all = command_table(&count);
    text_page_add(&page, "example:\n");
    for (size_t i = 0; i < count; i++) {
        if (strncmp(all[i].name, noun, length) == 0 && all[i].name[length] == ' ') {
            text_page_add(&page, "  %.*s\n", (int)strcspn(all[i].example, "\n"), all[i].example);
        }
    }
    text_page_add(&page, "\nusage: weir %s VERB [flags]\n\n", noun);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(all[i].name, noun, length) == 0 && all[i].name[length] == ' ') {
            add_help_item(&page, all[i].name, all[i].summary, VERB_COLUMN);
        }
    }
    text_page_add(&page, "\n`weir help %s VERB` explains one of them.\n", noun);
    return page.status;
}

enum weir_status help_overview(struct text *to)
{
    struct text_page page = {.to = to};
    size_t count;
    const struct command *all = command_table(&count);
    const char *section = "";
    text_page_add(
        &page,
        "example:\n  weir demo\n  weir enqueue -w acme onboard-customer --params '{\"customer\":42}' --wait\n"
        "  weir why ID\n\n"
        "usage: weir COMMAND [flags]\n"
        "A durable queue for the workflows of many tenants: starts each execution once,\n"
        "keeps every workspace within its plan, survives any crash, and names the reason\nwhy an execution waits.\n");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(section, all[i].section) != 0) {
            section = all[i].section;
            text_page_add(&page, "\n%s\n", section);
        }
        add_help_item(&page, all[i].name, all[i].summary, VERB_COLUMN);
    }
    text_page_add(&page, "\nflags of every command:\n");
    add_help_flags(&page, command_global_flags(), INVOCATION_FLAGS_MAX, NULL);
    text_page_add(&page, "\nexit codes:\n");
    for (size_t i = 0; exit_codes[i].meaning != NULL; i++) {
        char code[16];
        (void)snprintf(code, sizeof code, "%d", exit_codes[i].code);
        add_help_item(&page, code, exit_codes[i].meaning, 8);
    }
    text_page_add(&page, "\n`weir help COMMAND` and `weir COMMAND -h` explain one of them.\n");
    return page.status;
}
