/* `weir help`, `weir completion`, `weir version`.
 *
 * `help` gives its arguments to the parser with --help in front, so that a misspelt command gets the same hint as on the
 * command line. The texts come from help/; this file only chooses one and prints it. No settings and no store are opened,
 * so that help works with a broken weir.yaml. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/arguments/parse.h"
#include "cli/help/completion.h"
#include "cli/help/help.h"
#include "cli/help/help_json.h"
#include "cli/help/help_pages.h"
#include "cli/verbs/verb.h"

/* Prints the text, or reports that memory was refused. */
static enum weir_status print_help_text(struct invocation *invocation, enum weir_status status, struct text *text,
                                        struct weir_error *error)
{
    if (status == WEIR_OK) {
        output_print(invocation->output, "%s", text->data);
    } else {
        status = error_out_of_memory(error);
    }
    text_close(text);
    return status;
}

/* The arguments behind `help` as one name: "workflow apply". */
static const char *join_topic(const struct invocation *invocation, char *to, size_t size)
{
    to[0] = '\0';
    for (size_t i = 0, used = 0; i < invocation->argument_count && used < size; i++) {
        int added = snprintf(to + used, size - used, "%s%s", i > 0 ? " " : "", invocation->arguments[i]);
        used += added > 0 ? (size_t)added : 0;
    }
    return to;
}

/* Parses the arguments as a command, so that a misspelt one gets the same suggestion as on the command line. */
static enum weir_status find_topic(struct invocation *invocation, struct invocation *ret_found, struct weir_error *error)
{
    const char *arguments[4] = {"--help"};
    size_t count = 1;
    for (size_t i = 0; i < invocation->argument_count; i++) {
        if (count == sizeof arguments / sizeof arguments[0]) {
            return invocation_usage_error(invocation, error, "too many arguments");
        }
        arguments[count++] = invocation->arguments[i];
    }
    *ret_found = (struct invocation){.arena = invocation->arena};
    return command_parse(ret_found, count, arguments, error);
}

enum weir_status verb_help(struct invocation *invocation, struct weir_error *error)
{
    struct text text = {.max = HELP_BYTES_MAX};
    struct invocation found = {.arena = invocation->arena};
    char topic[128];
    enum weir_status status = WEIR_OK;
    if (invocation->argument_count > 0) {
        status = find_topic(invocation, &found, error);
        if (status != WEIR_OK) {
            return status;
        }
        if (found.command != NULL && strcmp(join_topic(invocation, topic, sizeof topic), found.command->name) != 0) {
            return invocation_usage_error(invocation, error, "weir has no command \"%s\"", topic);
        }
    }
    if (invocation->output->format != OUTPUT_TABLE) {
        json_t *table = help_json(found.command, found.command == NULL ? found.noun : NULL);
        if (table == NULL) {
            return error_out_of_memory(error);
        }
        output_json(invocation->output, table);
        json_decref(table);
        return WEIR_OK;
    }
    if (invocation_has(invocation, "markdown")) {
        status = help_markdown(&text);
    } else if (invocation_has(invocation, "man")) {
        status = help_man(found.command, &text);
    } else if (found.command != NULL) {
        status = help_command(found.command, &text);
    } else if (found.noun != NULL) {
        status = help_noun(found.noun, &text);
    } else {
        status = help_overview(&text);
    }
    return print_help_text(invocation, status, &text, error);
}

enum weir_status verb_completion(struct invocation *invocation, struct weir_error *error)
{
    struct text text = {.max = HELP_BYTES_MAX};
    static const char *const shells[] = {"bash", "zsh", "fish"};
    const char *shell = invocation_argument(invocation, 0);
    enum weir_status status = help_completion(shell, &text);
    if (status == WEIR_INVALID_ARGUMENT) {
        const char *nearest = text_nearest(shell, shells, 3);
        error_set(error, status, "weir has no completion for \"%s\"", shell);
        error_hint(error, nearest != NULL ? "did you mean %s?" : "name a shell: bash, zsh or fish", nearest);
        text_close(&text);
        return status;
    }
    return print_help_text(invocation, status, &text, error);
}

enum weir_status verb_version(struct invocation *invocation, struct weir_error *error)
{
    if (invocation->output->format == OUTPUT_TABLE) {
        output_print(invocation->output, "weir %s\n", WEIR_VERSION);
        return WEIR_OK;
    }
    json_t *version = json_pack("{s:s, s:s}", "name", "weir", "weir_version", WEIR_VERSION);
    if (version == NULL) {
        return error_out_of_memory(error);
    }
    output_json(invocation->output, version);
    json_decref(version);
    return WEIR_OK;
}
