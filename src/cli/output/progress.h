/* The progress line of a long command, on stderr. The state is in struct output, because any other line ends it. */
#ifndef WEIR_CLI_OUTPUT_PROGRESS_H
#define WEIR_CLI_OUTPUT_PROGRESS_H

#include "cli/output/output.h"

/* Progress of something that lasts: one line that moves on a terminal (after a second; with the time left after ten),
 * one line per tenth otherwise. `total` 0 = not known. output_progress_end() clears it. Does not appear with --quiet. */
void output_progress(struct output *output, const char *what, int64_t done, int64_t total);
void output_progress_end(struct output *output);

#endif
