#include "cli/frame.h"

#include <stdlib.h>
#include <string.h>

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

void frame_end(struct frame *frame)
{
    frame->output->out = frame->real_out;
    frame->output->arena = frame->real_arena;
    if (frame->buffer == NULL) {
        return;
    }
    (void)fclose(frame->buffer);
    frame->buffer = NULL;
    bool is_live = frame_is_live(frame->output);
    if (is_live && frame->lines > 0 && frame->shown != NULL && strcmp(frame->shown, frame->text) == 0) {
        free(frame->text);
        frame->text = NULL;
        return;
    }
    if (is_live && frame->lines > 0) {
        output_print(frame->output, "\033[%zuA\033[J", frame->lines);
    }
    output_print(frame->output, "%s", frame->text);
    (void)fflush(frame->output->out);
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
