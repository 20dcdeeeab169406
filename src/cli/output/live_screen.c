/* A picture that is drawn again at the same place of the terminal.
 *
 * live_screen_begin() redirects the output to a memory buffer and its memory to an arena that the next picture reuses.
 * live_screen_end() cuts the text to the size of the terminal, moves the cursor up by the lines of the last picture, and
 * writes the new one. The same picture is not written twice.
 *
 * A line that wraps must never be written: the cursor would not come back to the right line. One thread.
 */
#include "cli/output/live_screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/text.h"

enum { FRAME_MEMORY_MAX = 8 * 1024 * 1024 };

bool live_screen_is_live(const struct output *output)
{
    return output->out_is_terminal && output->out_colour;
}

void live_screen_open(struct live_screen *screen, struct output *output)
{
    *screen = (struct live_screen){.output = output};
    arena_init(&screen->arena, FRAME_MEMORY_MAX);
}

void live_screen_begin(struct live_screen *screen)
{
    arena_reset(&screen->arena);
    screen->real_out = screen->output->out;
    screen->real_arena = screen->output->arena;
    screen->buffer = open_memstream(&screen->text, &screen->length);
    if (screen->buffer != NULL) {
        screen->output->out = screen->buffer;
        screen->output->is_cut = true;
    }
    screen->output->arena = &screen->arena;
}

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 0;
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

/* Copies one line up to the last column and moves both pointers behind it. Escape codes have no width, and all of them
 * are copied. */
static void fit_line(const char **from, char **to, size_t columns)
{
    size_t used = 0;
    while (**from != '\0' && **from != '\n') {
        char character[8] = "";
        size_t length = 1;
        size_t wide = 0;
        if (**from == '\033') {
            length = strcspn(*from, "m\n");
            length += (*from)[length] == 'm';
        } else {
            while (((*from)[length] & 0xc0) == 0x80 && length < sizeof character - 1) {
                length++;
            }
            memcpy(character, *from, length);
            wide = text_columns(character);
        }
        used += wide;
        if (wide == 0 || used <= columns) {
            memmove(*to, *from, length);
            *to += length;
        }
        *from += length;
    }
    if (**from == '\n') {
        *(*to)++ = *(*from)++;
    }
}

void live_screen_fit(char *text, size_t columns, size_t rows)
{
    size_t lines = count_lines(text, strlen(text));
    const char *from = text;
    char *to = text;
    for (size_t line = 0; *from != '\0'; line++) {
        char *begin = to;
        fit_line(&from, &to, columns);
        bool is_last = line + 1 >= lines;
        to = line + 1 >= rows && !is_last ? begin : to;
    }
    *to = '\0';
}

void live_screen_end(struct live_screen *screen)
{
    screen->output->out = screen->real_out;
    screen->output->arena = screen->real_arena;
    screen->output->is_cut = false;
    if (screen->buffer == NULL) {
        return;
    }
    (void)fclose(screen->buffer);
    screen->buffer = NULL;
    bool is_live = live_screen_is_live(screen->output);
    struct winsize size;
    if (is_live && ioctl(fileno(screen->output->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1) {
        live_screen_fit(screen->text, size.ws_col, size.ws_row - 1U);
        screen->length = strlen(screen->text);
    }
    if (is_live && screen->lines > 0 && screen->shown != NULL && strcmp(screen->shown, screen->text) == 0) {
        free(screen->text);
        screen->text = NULL;
        return;
    }
    if (is_live && screen->lines > 0) {
        output_print(screen->output, "\033[%zuA\033[J", screen->lines);
    }
    output_print(screen->output, "%s", screen->text);
    output_flush(screen->output);
    screen->lines = count_lines(screen->text, screen->length);
    free(screen->shown);
    screen->shown = screen->text;
    screen->text = NULL;
}

void live_screen_close(struct live_screen *screen)
{
    if (screen->output != NULL) {
        arena_close(&screen->arena);
        free(screen->shown);
    }
}
