/* The entry of the program: arguments -> invocation -> verb -> exit code.
 *
 * 1. command_parse() makes an invocation of the arguments, without any output.
 * 2. The settings are read, and the flags that stand for a setting replace their values.
 * 3. The verb runs. It returns a status, and its message in `error`.
 * 4. output_finish() flushes stdout; output_error() prints the one error line; the status gives the exit code.
 *
 * Nothing else happens here. A closed stdout or a full disk must never end the process by a signal, because a verb may be
 * in the middle of a transaction. Runs in the only thread; a node starts its threads later (node_runner.c).
 */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "assemble.h"
#include "base/error.h"
#include "base/shell_quote.h"
#include "cli/arguments/parse.h"
#include "cli/help/help.h"
#include "cli/output/output.h"
#include "cli/verbs/completion_names.h"
#include "cli/verbs/print_routes.h"
#include "store/store.h"

enum { COMMAND_LINE_MEMORY_MAX = 256 * 1024 * 1024 };

static enum output_format choose_format(const struct invocation *invocation)
{
    const char *format = invocation_text(invocation, "output");
    if (format == NULL) {
        return invocation_has(invocation, "json") ? OUTPUT_JSON : OUTPUT_TABLE;
    }
    return strcmp(format, "jsonl") == 0 ? OUTPUT_JSONL : strcmp(format, "json") == 0 ? OUTPUT_JSON : OUTPUT_TABLE;
}

/* Reads the settings and lays the flags over them. */
static enum weir_status apply_settings(struct invocation *invocation, struct weir_error *error)
{
    const struct command *command = invocation->command;
    if ((command->marks & COMMAND_NO_SETTINGS) != 0) {
        return WEIR_OK;
    }
    enum weir_status status =
        settings_load(invocation->settings, invocation->arena, invocation_text(invocation, "config"), error);
    for (size_t i = 0; i < invocation->value_count && status == WEIR_OK; i++) {
        const struct flag_value *value = &invocation->values[i];
        if (value->flag->has_setting) {
            char origin[64];
            (void)snprintf(origin, sizeof origin, "--%s", value->flag->name);
            const char *kept = arena_copy_string(invocation->arena, origin);
            const char *text = value->flag->type == VALUE_NONE ? "true" : value->text;
            status = kept == NULL ? error_out_of_memory(error)
                                  : settings_set(invocation->settings, value->flag->setting, text, kept, error);
        }
    }
    return status;
}

static enum weir_status print_help(struct invocation *invocation, struct weir_error *error)
{
    struct text text = {.max = HELP_BYTES_MAX};
    enum weir_status status = invocation->command != NULL ? help_command(invocation->command, &text)
                              : invocation->noun != NULL  ? help_noun(invocation->noun, &text)
                                                          : help_overview(&text);
    if (status == WEIR_OK) {
        output_print(invocation->output, "%s", text.data);
    } else {
        error_out_of_memory(error);
    }
    text_close(&text);
    return status;
}

/* The word of --store as a shell takes it; with a password in it, the name of the value. NULL without the flag. */
static const char *word_of_store(struct invocation *invocation)
{
    const char *value = invocation_text(invocation, "store");
    char *word = arena_allocate(invocation->arena, SHELL_WORD_MAX);
    char shown[SHELL_WORD_MAX];
    if (value == NULL || word == NULL) {
        return NULL;
    }
    store_url_shown(value, shown, sizeof shown);
    return strcmp(value, shown) == 0 ? shell_quote(value, word) : "URL";
}

static enum weir_status run_command(struct invocation *invocation, size_t count, const char *const *arguments,
                                    struct weir_error *error)
{
    enum weir_status status = command_parse(invocation, count, arguments, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (invocation->wants_help) {
        return print_help(invocation, error);
    }
    if (invocation->command == NULL) {
        output_print(invocation->output, "weir %s\n", WEIR_VERSION);
        return WEIR_OK;
    }
    invocation->output->format = choose_format(invocation);
    invocation->output->quiet = invocation_has(invocation, "quiet");
    invocation->output->is_wide = invocation_has(invocation, "wide");
    invocation->output->store_word = word_of_store(invocation);
    status = apply_settings(invocation, error);
    return status == WEIR_OK ? invocation->command->run(invocation, error) : status;
}

int main(int argc, char **argv)
{
    struct arena arena;
    struct output output;
    struct settings settings = {.arena = &arena};
    struct weir_error error = {.status = WEIR_OK};
    struct weir_error late = {.status = WEIR_OK};
    size_t count = argc > 1 ? (size_t)argc - 1 : 0;
    const char *const *arguments = (const char *const *)argv + (argc > 0 ? 1 : 0);

    assemble_tune_process();
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* the widths of characters: all text is UTF-8, in every locale of the user */
    /* A closed stdout and a file at its limit are error codes to us, never a death in the middle of a transaction. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    arena_init(&arena, COMMAND_LINE_MEMORY_MAX);
    if (routes_are_asked(count, arguments)) {
        arena_close(&arena);
        return routes_print();
    }
    if (completion_is_asked(count, arguments)) {
        int code = completion_print_names(count, arguments, &arena);
        arena_close(&arena);
        return code;
    }
    output_open(&output, stdout, stderr, &arena);
    output.format = command_asks_for_json(count, arguments) ? OUTPUT_JSON : OUTPUT_TABLE;

    struct invocation invocation = {.output = &output, .settings = &settings, .arena = &arena};
    enum weir_status status = run_command(&invocation, count, arguments, &error);
    enum weir_status written = output_finish(&output, &late);
    if (status == WEIR_OK && written != WEIR_OK) {
        status = written;
        error = late;
    }
    if (status != WEIR_OK) {
        output_error(&output, status, &error);
    }
    (void)fflush(stderr);
    arena_close(&arena);
    return weir_status_exit(status);
}
