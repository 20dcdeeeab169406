/* The progress line of a long command.
 *
 * On a terminal it is one line on stderr that is redrawn ten times a second at most. In a pipe it is one line for each
 * tenth, or one every ten seconds when the total is unknown. Nothing appears in the first second, so that short commands
 * stay silent.
 *
 * Any other output ends the line first (output_progress_end()), so that no text is appended to it. One thread.
 */
#include "cli/output/progress.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

#define PROGRESS_QUIET_US (1 * MICROSECONDS_PER_SECOND) /* nothing is shown before */
#define PROGRESS_REDRAW_US (100 * MICROSECONDS_PER_MS)
#define PROGRESS_LEFT_US (10 * MICROSECONDS_PER_SECOND)    /* lasts longer: the time left is shown too */
#define PROGRESS_UNKNOWN_US (10 * MICROSECONDS_PER_SECOND) /* without total, piped: a line each so often */
enum { BAR_WIDTH = 20 };

static void add_progress_bar(const struct output *output, char *to, size_t size, int64_t done, int64_t total)
{
    int64_t full = total > 0 ? done * BAR_WIDTH / total : 0;
    size_t used = 0;
    for (int i = 0; i < BAR_WIDTH && used + 4 < size; i++) {
        const char *cell = output->utf8 ? (i < full ? "█" : "░") : (i < full ? "#" : ".");
        size_t length = strlen(cell);
        memcpy(to + used, cell, length);
        used += length;
    }
    to[used] = '\0';
}

/* "retrying ████░░░░ 262/371  70 %  88/s  2s left" */
static void write_progress_line(const struct output *output, char *to, size_t size, const char *what, int64_t done,
                                int64_t total, int64_t lasts_us)
{
    char bar[BAR_WIDTH * 4 + 8] = "";
    char left[DURATION_TEXT_MAX + 16] = "";
    double seconds = (double)lasts_us / (double)MICROSECONDS_PER_SECOND;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    if (total <= 0) {
        (void)snprintf(to, size, "%s %" PRId64 "  %.0f/s", what, done, rate);
        return;
    }
    add_progress_bar(output, bar, sizeof bar, done, total);
    if (lasts_us >= PROGRESS_LEFT_US && done > 0) {
        char text[DURATION_TEXT_MAX];
        duration_format_short((int64_t)((double)(total - done) / rate) * MICROSECONDS_PER_SECOND, text);
        (void)snprintf(left, sizeof left, "  %s left", text);
    }
    (void)snprintf(to, size, "%s %s %" PRId64 "/%" PRId64 "  %" PRId64 " %%  %.0f/s%s", what,
                   output->messages_is_terminal ? bar : "", done, total, done * 100 / total, rate, left);
}

static void draw_progress_line(struct output *output, const char *line)
{
    size_t width = text_columns(line);
    size_t clear = output->progress_width > width ? output->progress_width - width : 0;
    (void)fprintf(output->messages, "\r%s%*s", line, (int)clear, "");
    (void)fflush(output->messages);
    output->progress_width = width;
    output->progress_is_open = true;
}

void output_progress(struct output *output, const char *what, int64_t done, int64_t total)
{
    int64_t now_us = clock_boot(clock_system());
    char line[256];
    if (output->quiet) {
        return;
    }
    if (output->progress_from_us == 0) {
        output->progress_from_us = now_us;
        output->progress_last_us = now_us;
        output->progress_tenths = 0;
    }
    int64_t lasts_us = now_us - output->progress_from_us;
    if (lasts_us < PROGRESS_QUIET_US) {
        return;
    }
    if (output->messages_is_terminal) {
        if (now_us - output->progress_last_us >= PROGRESS_REDRAW_US) {
            write_progress_line(output, line, sizeof line, what, done, total, lasts_us);
            draw_progress_line(output, line);
            output->progress_last_us = now_us;
        }
        return;
    }
    int64_t tenths = total > 0 ? done * 10 / total : 0;
    bool is_due = total > 0 ? tenths > output->progress_tenths : now_us - output->progress_last_us >= PROGRESS_UNKNOWN_US;
    if (is_due) {
        write_progress_line(output, line, sizeof line, what, done, total, lasts_us);
        (void)fprintf(output->messages, "%s\n", line);
        output->progress_tenths = tenths;
        output->progress_last_us = now_us;
    }
}

void output_progress_end(struct output *output)
{
    if (output->progress_is_open) {
        (void)fprintf(output->messages, "\r%*s\r", (int)output->progress_width, "");
        (void)fflush(output->messages);
        output->progress_is_open = false;
        output->progress_width = 0;
    }
}
