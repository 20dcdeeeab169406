/* The door of the command line: words -> invocation -> verb -> exit code. Nothing else happens here. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "assemble.h"
#include "base/error.h"
#include "cli/arguments/command.h"
#include "cli/arguments/parse.h"
#include "cli/help/help.h"

enum { COMMAND_LINE_MEMORY_MAX = 256 * 1024 * 1024 };

static enum output_format format_of(const struct invocation *invocation)
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

static enum weir_status run(struct invocation *invocation, size_t count, const char *const *words, struct weir_error *error)
{
    enum weir_status status = command_parse(invocation, count, words, error);
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
    invocation->output->format = format_of(invocation);
    invocation->output->quiet = invocation_has(invocation, "quiet");
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
    const char *const *words = (const char *const *)argv + (argc > 0 ? 1 : 0);

    assemble_tune_process();
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* how wide characters are: our text is UTF-8 whatever the user's locale is */
    /* A closed stdout and a file at its limit are error codes to us, never a death in the middle of a transaction. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    arena_init(&arena, COMMAND_LINE_MEMORY_MAX);
    output_open(&output, stdout, stderr, &arena);
    output.format = command_guess_format(count, words);

    struct invocation invocation = {.output = &output, .settings = &settings, .arena = &arena};
    enum weir_status status = run(&invocation, count, words, &error);
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
