/* Manual pages in roff and docs/commands.md in Markdown.
 *
 * Both walk the same table rows. Text for roff is escaped byte by byte, so that no line of a help text becomes a request
 * and hyphens stay hyphens. In Markdown only the bars of table cells are escaped. A test compares docs/commands.md with
 * the output of this file. Pure.
 */
#include "cli/help/help_pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/arguments/invocation.h"
#include "cli/help/help.h"
#include "cli/output/text_page.h"
#include "cli/settings/settings.h"

/* --- roff --- */

/* Text that roff takes literally: no line begins a request, hyphens stay hyphens. */
static void add_roff(struct text_page *page, const char *text, size_t length)
{
    bool at_line_start = true;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (at_line_start && (c == '.' || c == '\'')) {
            text_page_add(page, "\\&");
        }
        if (c == '\\') {
            text_page_add(page, "\\e");
        } else if (c == '-') {
            text_page_add(page, "\\-");
        } else {
            text_page_add(page, "%c", c);
        }
        at_line_start = c == '\n';
    }
}

/* Adds an escaped text between two texts of roff. */
static void add_roff_line(struct text_page *page, const char *before, const char *text, const char *after)
{
    text_page_add(page, "%s", before);
    add_roff(page, text, strlen(text));
    text_page_add(page, "%s\n", after);
}

/* Adds each line of the text as a paragraph. */
static void add_roff_paragraphs(struct text_page *page, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        text_page_add(page, ".PP\n");
        add_roff(page, text, length);
        text_page_add(page, "\n");
        text += length + (text[length] == '\n');
    }
}

/* Adds a flag with its help as a tagged paragraph. */
static void add_roff_flag(struct text_page *page, const struct flag *flag)
{
    text_page_add(page, ".TP\n");
    if (flag->letter != 0) {
        text_page_add(page, "\\fB\\-%c\\fR, ", flag->letter);
    }
    add_roff_line(page, "\\fB\\-\\-", flag->name, "\\fR");
    if (flag->type != VALUE_NONE) {
        page->to->length -= page->status == WEIR_OK ? 1 : 0; /* on the same line */
        add_roff_line(page, " \\fI", flag->value, "\\fR");
    }
    add_roff_line(page, "", flag->help, "");
}

/* Adds usage, summary, details, arguments, flags and examples of a command. */
static void add_roff_command(struct text_page *page, const struct command *command, const char *heading)
{
    char usage[128];
    command_usage(command, usage, sizeof usage);
    text_page_add(page, "%s ", heading);
    add_roff_line(page, "\"", usage, "\"");
    add_roff_line(page, "", command->summary, ".");
    if (command->details != NULL) {
        add_roff_paragraphs(page, command->details);
    }
    for (size_t i = 0; i < COMMAND_ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
        add_roff_line(page, ".TP\n\\fI", command->arguments[i].name, "\\fR");
        add_roff_line(page, "", command->arguments[i].help, "");
    }
    for (size_t i = 0; i < COMMAND_FLAGS_MAX && command->flags[i].name != NULL; i++) {
        add_roff_flag(page, &command->flags[i]);
    }
    text_page_add(page, ".PP\n.nf\n");
    add_roff(page, command->example, strlen(command->example));
    text_page_add(page, ".fi\n");
}

/* Adds the parts that every page has: global flags, exit codes, settings. */
static void add_roff_tail(struct text_page *page)
{
    text_page_add(page, ".SH FLAGS OF EVERY COMMAND\n");
    for (const struct flag *flag = command_global_flags(); flag->name != NULL; flag++) {
        add_roff_flag(page, flag);
    }
    text_page_add(page, ".SH EXIT STATUS\n");
    for (const struct exit_code *code = help_exit_codes(); code->meaning != NULL; code++) {
        text_page_add(page, ".TP\n%d\n", code->code);
        add_roff_line(page, "", code->meaning, "");
    }
    text_page_add(
        page, ".SH SETTINGS\nFlags, environment, ./weir.yaml, ~/.config/weir/weir.yaml, /etc/weir/weir.yaml: the first that"
              " has a value wins. In a file, the list \\fBnodes\\fR makes one process several nodes: each entry is a map of"
              " these settings for one of them.\n");
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &settings_table()[i];
        text_page_add(page, ".TP\n\\fB%s\\fR, %s (default \\(lq", setting->key, setting->environment);
        add_roff_line(page, "", setting->default_text, "\\(rq)");
        add_roff_line(page, "", setting->help, "");
    }
}

enum weir_status help_man(const struct command *command, struct text *to)
{
    struct text_page page = {.to = to};
    char name[64] = "weir";
    if (command != NULL) {
        (void)snprintf(name, sizeof name, "weir-%s", command->name);
        for (char *space = strchr(name, ' '); space != NULL; space = strchr(space, ' ')) {
            *space = '-';
        }
    }
    text_page_add(&page, ".TH \"%s\" 1 \"\" \"weir %s\" \"weir\"\n.SH NAME\n", name, WEIR_VERSION);
    add_roff(&page, name, strlen(name));
    add_roff_line(&page, " \\- ", command != NULL ? command->summary : "durable queue for the workflows of many tenants",
                  "");
    if (command != NULL) {
        add_roff_command(&page, command, ".SH");
    } else {
        size_t count;
        const struct command *all = command_table(&count);
        text_page_add(&page, ".SH SYNOPSIS\n\\fBweir\\fR \\fICOMMAND\\fR [flags]\n.SH COMMANDS\n");
        for (size_t i = 0; i < count; i++) {
            add_roff_command(&page, &all[i], ".SS");
        }
    }
    add_roff_tail(&page);
    return page.status;
}

/* --- Markdown --- */

/* A cell of a table: bars would end it. */
static void add_markdown_cell(struct text_page *page, const char *text)
{
    for (; *text != '\0'; text++) {
        text_page_add(page, *text == '|' ? "\\%c" : "%c", *text);
    }
}

/* Adds a row of a table for each flag. */
static void add_markdown_flags(struct text_page *page, const struct flag *flags, size_t most)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        const struct flag *flag = &flags[i];
        text_page_add(page, "| `");
        if (flag->letter != 0) {
            text_page_add(page, "-%c, ", flag->letter);
        }
        text_page_add(page, "--%s%s%s` | ", flag->name, flag->type != VALUE_NONE ? " " : "",
                      flag->type != VALUE_NONE ? flag->value : "");
        add_markdown_cell(page, flag->help);
        if (flag->has_setting) {
            text_page_add(page, " (setting `%s`)", settings_table()[flag->setting].key);
        }
        text_page_add(page, " |\n");
    }
}

/* Adds a section for a command. */
static void add_markdown_command(struct text_page *page, const struct command *command)
{
    char usage[128];
    command_usage(command, usage, sizeof usage);
    text_page_add(page, "\n### weir %s\n\n%s.\n\n```sh\n%s```\n\nUsage: `%s`\n", command->name, command->summary,
                  command->example, usage);
    for (const char *at = command->details; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, "\n");
        text_page_add(page, "\n%.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    if (command->arguments[0].name == NULL && command->flags[0].name == NULL) {
        return;
    }
    text_page_add(page, "\n| | |\n|---|---|\n");
    for (size_t i = 0; i < COMMAND_ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
        text_page_add(page, "| `%s` | ", command->arguments[i].name);
        add_markdown_cell(page, command->arguments[i].help);
        text_page_add(page, " |\n");
    }
    add_markdown_flags(page, command->flags, COMMAND_FLAGS_MAX);
}

/* Adds the table of settings. */
static void add_markdown_settings(struct text_page *page)
{
    text_page_add(
        page,
        "\n## Settings\n\nA value may come from a flag, the environment, `./weir.yaml`, `~/.config/weir/weir.yaml`"
        " (`$XDG_CONFIG_HOME`) or `/etc/weir/weir.yaml`; the first that has it wins. `weir config show --origin` shows the "
        "source of each value. In a file, the list `nodes` makes one process several nodes: each entry is a map of these"
        " settings for one of them ([operations.md](operations.md#settings)).\n\n| key | environment | default | "
        "meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &settings_table()[i];
        text_page_add(page, "| `%s` | `%s` | %s%s%s | ", setting->key, setting->environment,
                      setting->default_text[0] != '\0' ? "`" : "", setting->default_text,
                      setting->default_text[0] != '\0' ? "`" : "");
        add_markdown_cell(page, setting->help);
        text_page_add(page, " |\n");
    }
}

/* Links to all commands, by section, and to the sections behind them. */
static void add_markdown_contents(struct text_page *page)
{
    size_t count;
    const struct command *all = command_table(&count);
    const char *section = "";
    text_page_add(page, "\nOn this page:\n");
    for (size_t i = 0; i < count; i++) {
        char anchor[64];
        bool is_first = strcmp(section, all[i].section) != 0;
        (void)snprintf(anchor, sizeof anchor, "weir-%s", all[i].name);
        for (char *space = strchr(anchor, ' '); space != NULL; space = strchr(space, ' ')) {
            *space = '-';
        }
        if (is_first) {
            text_page_add(page, "\n- %s: ", all[i].section);
        } else {
            text_page_add(page, ", ");
        }
        text_page_add(page, "[%s](#%s)", all[i].name, anchor);
        section = all[i].section;
    }
    text_page_add(page, "\n- [flags of every command](#flags-of-every-command), [exit codes](#exit-codes), "
                        "[settings](#settings)\n");
}

enum weir_status help_markdown(struct text *to)
{
    struct text_page page = {.to = to};
    size_t count;
    const struct command *all = command_table(&count);
    const char *section = "";
    text_page_add(&page,
                  "# Commands of weir\n\nPrinted by `weir help --markdown` from the table of commands"
                  " (`src/cli/arguments/command_table.c`). Do not edit.\n\nFlags may stand before or behind the verb, as "
                  "`--flag VALUE` or"
                  " `--flag=VALUE`; `--` ends them. Data goes to stdout, everything else to stderr.\n");
    add_markdown_contents(&page);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(section, all[i].section) != 0) {
            section = all[i].section;
            text_page_add(&page, "\n## %s\n", section);
        }
        add_markdown_command(&page, &all[i]);
    }
    text_page_add(&page, "\n## Flags of every command\n\n| | |\n|---|---|\n");
    add_markdown_flags(&page, command_global_flags(), INVOCATION_FLAGS_MAX);
    text_page_add(&page, "\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (const struct exit_code *code = help_exit_codes(); code->meaning != NULL; code++) {
        text_page_add(&page, "| %d | %s |\n", code->code, code->meaning);
    }
    add_markdown_settings(&page);
    return page.status;
}
