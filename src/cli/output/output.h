/* The output of a command: data on stdout, messages on stderr, both safe for the terminal, neither ever cut by a signal.
 *
 * Strings that come from users or the store go through output_safe() before they reach a table or a sentence; JSON escapes
 * by itself. Escape codes are written only to a terminal, and not with NO_COLOR or TERM=dumb. A reader that closes our
 * stdout (`weir list | head -1`) is no error: later writes have no effect, output_finish() returns
 * WEIR_FAILED without a message, and the exit code is 1.
 */
#ifndef WEIR_CLI_OUTPUT_H
#define WEIR_CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "weir/status.h"

enum output_format { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_JSONL };

/* A sign is never alone: a text follows. X(enum, UTF-8, ASCII, colour) */
#define SIGN_LIST(X)                                                                                                       \
    X(SIGN_FINE, "✓", "ok", "32")                                                                                          \
    X(SIGN_BAD, "✗", "x", "31")                                                                                            \
    X(SIGN_WARN, "!", "!", "33")                                                                                           \
    X(SIGN_RUNS, "▸", ">", "36")                                                                                           \
    X(SIGN_WAITS, "…", ".", "2")                                                                                           \
    X(SIGN_PAUSED, "‖", "=", "33")                                                                                         \
    X(SIGN_GONE, "-", "-", "2")

enum sign {
#define SIGN_ENUM(id, utf8, ascii, colour) id,
    SIGN_LIST(SIGN_ENUM)
#undef SIGN_ENUM
        SIGN_COUNT
};

struct output {
    FILE *out;
    FILE *messages;
    enum output_format format;
    bool quiet; /* no messages but errors */
    bool out_is_terminal;
    bool messages_is_terminal;
    bool out_colour;
    bool messages_colour;
    bool utf8;      /* the terminal's character set, from LC_ALL, LC_CTYPE, LANG */
    size_t columns; /* of the terminal; 80 when there is none */
    bool is_wide;   /* --wide: rows of tables are whole on a terminal, too */
    bool is_cut;    /* the text is cut to the terminal later (live_screen.h) */
    struct arena *arena;
    const char *store_word; /* of --store, for the commands in messages and hints; NULL: the flag was not given */
    int write_errno;        /* of the first write to stdout that failed */
    bool progress_is_open;  /* a progress line stands unfinished on the terminal */
    int64_t progress_from_us;
    int64_t progress_last_us;
    int64_t progress_tenths;
    size_t progress_width;
};

/* Reads the properties of the streams, the environment, COLUMNS and the window size. */
void output_open(struct output *output, FILE *out, FILE *messages, struct arena *arena);
/* Flushes. WEIR_FAILED without a message when the reader is gone; WEIR_SYSTEM when the disk behind stdout is full. */
WEIR_MUST_CHECK enum weir_status output_finish(struct output *output, struct weir_error *error);

/* --- data, on stdout --- */

/* Prints as it is; only for texts that weir made. */
void output_print(struct output *output, const char *format, ...) WEIR_PRINTF(2, 3);
/* Any bytes as they are, NULs too. */
void output_bytes(struct output *output, const char *bytes, size_t length);
/* Flushes the printed text, for a reader that acts on it line by line. */
void output_flush(struct output *output);
/* One value: indented on a terminal, compact when piped; then a newline. */
void output_json(struct output *output, const json_t *value);
/* A list's answer in the asked format, when that is json or jsonl: the whole page, or each of its "items" on one line.
 * False when the format is table: then the caller prints one. */
bool output_page(struct output *output, const json_t *page);
/* The same for an answer that is one object. */
bool output_object(struct output *output, const json_t *object);

/* --- messages, on stderr --- */

/* A line, unless --quiet; the newline is added. */
void output_report(struct output *output, const char *format, ...) WEIR_PRINTF(2, 3);
/* The same behind a sign. */
void output_report_sign(struct output *output, enum sign sign, const char *format, ...) WEIR_PRINTF(3, 4);
/* "weir: MESSAGE (CODE)" and "hint: ..."; a JSON object with -o json and jsonl. Nothing when the message is empty. Not
 * silenced by --quiet. */
void output_error(struct output *output, enum weir_status status, const struct weir_error *error);

/* Asks on the terminal (stderr, answer from stdin). True when the answer is exactly `expected`. False at once when stdin or
 * stderr is no terminal: then *ret_asked is false. */
bool output_ask(struct output *output, const char *question, const char *expected, bool *ret_asked);

/* --- texts --- */

/* A copy without control characters, bidi controls and bad UTF-8, of the output's arena; never NULL. NULL gives "". */
const char *output_safe(struct output *output, const char *string);
const char *output_sign(const struct output *output, enum sign sign);
/* The sign in its colour when stdout shows colours. In the arena. */
const char *output_sign_coloured(struct output *output, enum sign sign);
/* The sign for a state ("PENDING") of an execution. */
enum sign output_state_sign(const char *state);
/* A time of the store (RFC 3339 text) as seen from `now_us`: "42s ago", "in 3m12s". "" for NULL. In the arena. */
const char *output_ago(struct output *output, const char *time_text, int64_t now_us);
/* The same as a bare duration: "42s". */
const char *output_age(struct output *output, const char *time_text, int64_t now_us);

#endif
