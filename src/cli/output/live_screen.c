#include "cli/output/live_screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/text.h"

enum { FRAME_MEMORY_MAX = 8 * 1024 * 1024 };

bool frame_is_live(const struct output *output)
{
    return output->out_is_terminal && output->out_colour;
}

void frame_open(struct frame *frame, struct output *output)
{
    *frame = (struct frame){.output = output};
    arena_init(&frame->arena, FRAME_MEMORY_MAX);
}

void frame_begin(struct frame *frame)
{
    arena_reset(&frame->arena);
    frame->real_out = frame->output->out;
    frame->real_arena = frame->output->arena;
    frame->buffer = open_memstream(&frame->text, &frame->length);
    if (frame->buffer != NULL) {
        frame->output->out = frame->buffer;
        frame->output->is_cut = true;
    }
    frame->output->arena = &frame->arena;
}

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 0;
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

/* Copies one line without what stands behind the last column; escape codes take none and all stay. Moves both behind it. */
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

void frame_fit(char *text, size_t columns, size_t rows)
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

void frame_end(struct frame *frame)
{
    frame->output->out = frame->real_out;
    frame->output->arena = frame->real_arena;
    frame->output->is_cut = false;
    if (frame->buffer == NULL) {
        return;
    }
    (void)fclose(frame->buffer);
    frame->buffer = NULL;
    bool is_live = frame_is_live(frame->output);
    struct winsize size;
    if (is_live && ioctl(fileno(frame->output->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1) {
        frame_fit(frame->text, size.ws_col, size.ws_row - 1U);
        frame->length = strlen(frame->text);
    }
    if (is_live && frame->lines > 0 && frame->shown != NULL && strcmp(frame->shown, frame->text) == 0) {
        free(frame->text);
        frame->text = NULL;
        return;
    }
    if (is_live && frame->lines > 0) {
        output_print(frame->output, "\033[%zuA\033[J", frame->lines);
    }
    output_print(frame->output, "%s", frame->text);
    output_flush(frame->output);
    frame->lines = count_lines(frame->text, frame->length);
    free(frame->shown);
    frame->shown = frame->text;
    frame->text = NULL;
}

void frame_close(struct frame *frame)
{
    if (frame->output != NULL) {
        arena_close(&frame->arena);
        free(frame->shown);
    }
}
