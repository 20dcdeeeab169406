/* A picture that is drawn again and again at the same place of the terminal: demo, top.
 *
 *     live_screen_begin(&screen, output);  ... output_print(), tables ...  live_screen_end(&screen);
 *
 * Between the two everything for stdout goes into a buffer. Memory for the output comes from the screen and is freed
 * with its next picture, so a picture may be drawn for weeks. Without a terminal that supports escape codes
 * (live_screen_is_live() false: a pipe, NO_COLOR, TERM=dumb) each picture simply follows the last one. */
#ifndef WEIR_CLI_OUTPUT_LIVE_SCREEN_H
#define WEIR_CLI_OUTPUT_LIVE_SCREEN_H

#include <stdio.h>

#include "base/arena.h"
#include "cli/output/output.h"

struct live_screen {
    struct output *output;
    struct arena arena;
    FILE *buffer;
    char *text;
    size_t length;
    char *shown;  /* the last picture: the same again is not drawn */
    size_t lines; /* of the picture that stands on the terminal */
    FILE *real_out;
    struct arena *real_arena;
};

/* The screen may move between begin and end; live_screen_close() takes a zeroed one too. */
void live_screen_open(struct live_screen *screen, struct output *output);
bool live_screen_is_live(const struct output *output);
void live_screen_begin(struct live_screen *screen);
/* Puts the picture in the place of the last one; on a terminal that is too small for it, a part of it. */
void live_screen_end(struct live_screen *screen);
/* Cuts the text in place to so many columns and lines, 1 or more: a line that wrapped would not be found again. The last
 * line, where the keys and the questions are, stays; those before it that are too many go. */
void live_screen_fit(char *text, size_t columns, size_t rows);
void live_screen_close(struct live_screen *screen);

#endif
