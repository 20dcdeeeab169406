/* Data on stdout, messages on stderr.
 *
 * Both streams keep their order on one terminal: stdout is flushed before a message. The first failed write is remembered
 * and reported at the end, because a verb does not check each print. A reader that closed stdout is no error.
 *
 * Texts from users or from the store pass output_safe() before they reach a terminal; JSON on a terminal is escaped
 * further. No function here ends the process or throws a message of an error away. One thread.
 */
#include "cli/output/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/output/progress.h"

enum { COLUMNS_DEFAULT = 80, COLUMNS_LEAST = 8, COLUMNS_MOST = 1000, JSON_TEXT_MAX = 256 * 1024 * 1024 };

struct sign_facts {
    const char *utf8;
    const char *ascii;
    const char *colour;
};

static const struct sign_facts signs[] = {
#define SIGN_FACTS(id, utf8, ascii, colour) [id] = {utf8, ascii, colour},
    SIGN_LIST(SIGN_FACTS)
#undef SIGN_FACTS
};

/* --- opening --- */

/* NULL when it is not set, or empty. */
static const char *environment_text(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool colour_is_wanted(FILE *stream)
{
    const char *terminal = environment_text("TERM");
    return isatty(fileno(stream)) && environment_text("NO_COLOR") == NULL && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

static bool character_set_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = environment_text(names[i]);
        if (value != NULL) {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

static size_t columns_of(FILE *stream)
{
    struct winsize size;
    long columns = COLUMNS_DEFAULT;
    if (isatty(fileno(stream))) {
        const char *wanted = environment_text("COLUMNS");
        if (wanted != NULL) {
            columns = strtol(wanted, NULL, 10);
        } else if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
            columns = size.ws_col;
        }
    }
    columns = columns <= 0 ? COLUMNS_DEFAULT : columns < COLUMNS_LEAST ? COLUMNS_LEAST : columns;
    return (size_t)(columns > COLUMNS_MOST ? COLUMNS_MOST : columns);
}

void output_open(struct output *output, FILE *out, FILE *messages, struct arena *arena)
{
    *output = (struct output){
        .out = out,
        .messages = messages,
        .out_is_terminal = isatty(fileno(out)),
        .messages_is_terminal = isatty(fileno(messages)),
        .out_colour = colour_is_wanted(out),
        .messages_colour = colour_is_wanted(messages),
        .utf8 = character_set_is_utf8(),
        .columns = columns_of(out),
        .arena = arena,
    };
}

static void note_write(struct output *output, bool is_written)
{
    if (!is_written && output->write_errno == 0) {
        output->write_errno = errno != 0 ? errno : EIO;
    }
}

/* So that both streams keep their order on one terminal. */
static void flush_out(struct output *output)
{
    errno = 0;
    note_write(output, fflush(output->out) == 0);
}

enum weir_status output_finish(struct output *output, struct weir_error *error)
{
    output_progress_end(output);
    flush_out(output);
    (void)fflush(output->messages);
    if (output->write_errno == 0) {
        return WEIR_OK;
    }
    if (output->write_errno == EPIPE) {
        error_clear(error); /* the reader has left on purpose */
        return WEIR_FAILED;
    }
    if (output->write_errno == ENOMEM) {
        return error_out_of_memory(error);
    }
    return error_set_native(error, WEIR_SYSTEM, output->write_errno, "cannot write to stdout: %s",
                            strerror(output->write_errno));
}

/* --- data --- */

void output_print(struct output *output, const char *format, ...)
{
    va_list arguments;
    output_progress_end(output);
    errno = 0;
    va_start(arguments, format);
    note_write(output, vfprintf(output->out, format, arguments) >= 0);
    va_end(arguments);
}

void output_bytes(struct output *output, const char *bytes, size_t length)
{
    output_progress_end(output);
    errno = 0;
    note_write(output, fwrite(bytes, 1, length, output->out) == length);
}

/* Prints C1 controls and bidi marks as \uXXXX: the JSON means the same, and the terminal does not execute it. */
static void print_escaped(struct output *output, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        unsigned char first = (unsigned char)bytes[i];
        size_t step = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        char character[5] = {0};
        step = step > length - i ? length - i : step;
        memcpy(character, bytes + i, step);
        char safe[5];
        memcpy(safe, character, sizeof safe);
        text_make_safe(safe);
        if (first == '\n' || strcmp(safe, character) == 0) {
            note_write(output, fwrite(character, 1, step, output->out) == step);
        } else {
            unsigned point = step == 1   ? first
                             : step == 2 ? ((first & 0x1FU) << 6) | ((unsigned char)character[1] & 0x3FU)
                                         : ((first & 0x0FU) << 12) | (((unsigned char)character[1] & 0x3FU) << 6) |
                                               ((unsigned char)character[2] & 0x3FU);
            note_write(output, fprintf(output->out, "\\u%04x", point) >= 0);
        }
        i += step;
    }
}

static int write_piece(const char *bytes, size_t length, void *context)
{
    return fwrite(bytes, 1, length, context) == length ? 0 : -1;
}

static void write_json(struct output *output, const json_t *value, size_t flags)
{
    output_progress_end(output);
    errno = 0;
    if (!output->out_is_terminal) {
        note_write(output, json_write_pieces(value, flags, write_piece, output->out) == 0);
    } else {
        char *text = json_make_text(value, flags);
        if (text == NULL) {
            output->write_errno = ENOMEM;
            return;
        }
        print_escaped(output, text, strlen(text));
        free(text);
    }
    note_write(output, fputc('\n', output->out) != EOF);
}

void output_flush(struct output *output)
{
    flush_out(output);
}

void output_json(struct output *output, const json_t *value)
{
    bool pretty = output->out_is_terminal && output->format != OUTPUT_JSONL;
    write_json(output, value, pretty ? JSON_INDENT(2) : JSON_COMPACT);
}

bool output_page(struct output *output, const json_t *page)
{
    if (output->format == OUTPUT_TABLE) {
        return false;
    }
    if (output->format == OUTPUT_JSON) {
        output_json(output, page);
        return true;
    }
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        write_json(output, item, JSON_COMPACT);
    }
    return true;
}

bool output_object(struct output *output, const json_t *object)
{
    if (output->format == OUTPUT_TABLE) {
        return false;
    }
    output_json(output, object);
    return true;
}

/* --- messages --- */

/* A message that is longer is printed as it is. Those with suggested commands are lines of at most a few hundred bytes: a
 * hint has its own bound. */
enum { MESSAGE_MAX = 4096 };

/* Where a command of weir begins in a message: behind a backquote, or behind a colon as in "now: weir resume". A command
 * that starts a server is for the machine of the server, which has a store of its own. */
static const char *next_command(const char *text, const char *from)
{
    const char *at = from;
    while ((at = strstr(at, "weir ")) != NULL) {
        bool is_quoted = at > text && at[-1] == '`';
        bool is_named = at > text + 1 && at[-1] == ' ' && at[-2] == ':';
        bool starts_server = strncmp(at, "weir serve --listen", strlen("weir serve --listen")) == 0;
        if ((is_quoted || is_named) && !starts_server) {
            return at;
        }
        at++;
    }
    return NULL;
}

/* A command that is suggested after a call with --store must act on the same store, so it gets the flag, too. Else the
 * `weir resume` of a look at one queue would resume the queue of the environment. A text that has the flag already, and
 * a usage, stay as they are. */
static void print_with_store(const struct output *output, const char *text)
{
    const char *rest = text;
    const char *command = NULL;
    bool is_usage = strncmp(text, "usage:", strlen("usage:")) == 0;
    bool may_add = output->store_word != NULL && !is_usage && strstr(text, "--store") == NULL;
    while (may_add && (command = next_command(text, rest)) != NULL) {
        size_t length = (size_t)(command - rest) + strlen("weir ");
        (void)fprintf(output->messages, "%.*s--store %s ", (int)length, rest, output->store_word);
        rest += length;
    }
    (void)fprintf(output->messages, "%s", rest);
}

static void WEIR_PRINTF(3, 0) write_message(struct output *output, const char *lead, const char *format, va_list arguments)
{
    output_progress_end(output);
    flush_out(output);
    if (output->write_errno == EPIPE) {
        return; /* the reader has closed stdout */
    }
    (void)fputs(lead, output->messages);
    char text[MESSAGE_MAX];
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= 0 && (size_t)length < sizeof text) {
        print_with_store(output, text);
    } else {
        (void)vfprintf(output->messages, format, again);
    }
    va_end(again);
    (void)fputc('\n', output->messages);
}

void output_report(struct output *output, const char *format, ...)
{
    if (!output->quiet) {
        va_list arguments;
        va_start(arguments, format);
        write_message(output, "", format, arguments);
        va_end(arguments);
    }
}

void output_report_sign(struct output *output, enum sign sign, const char *format, ...)
{
    if (output->quiet) {
        return;
    }
    char lead[32];
    const char *open = output->messages_colour ? "\033[" : "";
    const char *colour = output->messages_colour ? signs[sign].colour : "";
    (void)snprintf(lead, sizeof lead, "%s%s%s%s%s ", open, colour, output->messages_colour ? "m" : "",
                   output_sign(output, sign), output->messages_colour ? "\033[0m" : "");
    va_list arguments;
    va_start(arguments, format);
    write_message(output, lead, format, arguments);
    va_end(arguments);
}

static void error_as_json(struct output *output, enum weir_status status, const struct weir_error *error)
{
    json_t *body = json_pack("{s:{s:s, s:s, s:i}}", "error", "code", weir_status_name(status), "message", error->message,
                             "exit", weir_status_exit(status));
    if (body != NULL && error->hint[0] != '\0') {
        (void)json_object_set_new(json_object_get(body, "error"), "hint", json_string(error->hint));
    }
    if (body != NULL && json_write_pieces(body, JSON_COMPACT, write_piece, output->messages) == 0) {
        (void)fputc('\n', output->messages);
    }
    json_decref(body);
}

void output_error(struct output *output, enum weir_status status, const struct weir_error *error)
{
    if (error->message[0] == '\0') {
        return;
    }
    output_progress_end(output);
    flush_out(output);
    if (output->format != OUTPUT_TABLE) {
        error_as_json(output, status, error);
        return;
    }
    const char *red = output->messages_colour ? "\033[31m" : "";
    const char *plain = output->messages_colour ? "\033[0m" : "";
    (void)fprintf(output->messages, "%sweir:%s %s (%s)\n", red, plain, error->message, weir_status_name(status));
    if (error->hint[0] != '\0') {
        (void)fputs("hint: ", output->messages);
        print_with_store(output, error->hint);
        (void)fputc('\n', output->messages);
    }
}

bool output_ask(struct output *output, const char *question, const char *expected, bool *ret_asked)
{
    char answer[128];
    *ret_asked = isatty(STDIN_FILENO) && output->messages_is_terminal;
    if (!*ret_asked) {
        return false;
    }
    output_progress_end(output);
    flush_out(output);
    (void)fprintf(output->messages, "%s", question);
    (void)fflush(output->messages);
    if (fgets(answer, sizeof answer, stdin) == NULL) {
        (void)fputc('\n', output->messages);
        return false;
    }
    answer[strcspn(answer, "\r\n")] = '\0';
    return strcmp(answer, expected) == 0;
}

/* --- texts --- */

const char *output_safe(struct output *output, const char *string)
{
    char *copy = string == NULL ? NULL : arena_copy_string(output->arena, string);
    if (copy == NULL) {
        return "";
    }
    text_make_safe(copy);
    return copy;
}

const char *output_sign(const struct output *output, enum sign sign)
{
    return output->utf8 ? signs[sign].utf8 : signs[sign].ascii;
}

const char *output_sign_coloured(struct output *output, enum sign sign)
{
    char text[32];
    if (!output->out_colour) {
        return output_sign(output, sign);
    }
    (void)snprintf(text, sizeof text, "\033[%sm%s\033[0m", signs[sign].colour, output_sign(output, sign));
    char *copy = arena_copy_string(output->arena, text);
    return copy != NULL ? copy : "";
}

enum sign output_state_sign(const char *state)
{
    static const struct {
        const char *state;
        enum sign sign;
    } states[] = {
        {"PENDING", SIGN_WAITS},  {"CLAIMED", SIGN_RUNS}, {"DISPATCHED", SIGN_RUNS}, {"WAITING", SIGN_WAITS},
        {"COMPLETED", SIGN_FINE}, {"FAILED", SIGN_BAD},   {"CANCELLED", SIGN_GONE},
    };
    for (size_t i = 0; state != NULL && i < sizeof states / sizeof states[0]; i++) {
        if (strcasecmp(states[i].state, state) == 0) {
            return states[i].sign;
        }
    }
    return SIGN_WAITS;
}

static const char *time_seen_from(struct output *output, const char *time_text, int64_t now_us, bool is_bare)
{
    int64_t time_us;
    char duration[DURATION_TEXT_MAX];
    if (time_text == NULL || time_parse(time_text, now_us, &time_us, NULL) != WEIR_OK) {
        return "";
    }
    int64_t age_us = now_us - time_us;
    char text[DURATION_TEXT_MAX + 8];
    duration_format_short(age_us < 0 ? -age_us : age_us, duration);
    (void)snprintf(text, sizeof text, "%s%s%s", !is_bare && age_us < 0 ? "in " : "", duration,
                   !is_bare && age_us >= 0 ? " ago" : "");
    char *copy = arena_copy_string(output->arena, text);
    return copy != NULL ? copy : "";
}

const char *output_ago(struct output *output, const char *time_text, int64_t now_us)
{
    return time_seen_from(output, time_text, now_us, false);
}

const char *output_age(struct output *output, const char *time_text, int64_t now_us)
{
    return time_seen_from(output, time_text, now_us, true);
}
