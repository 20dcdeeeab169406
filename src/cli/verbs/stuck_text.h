/* The sentences of `weir why`, `status` and `doctor` about executions that run longer than expected, or wait. One thread.
 */
#ifndef WEIR_CLI_VERBS_STUCK_TEXT_H
#define WEIR_CLI_VERBS_STUCK_TEXT_H

#include <jansson.h>

#include "cli/output/output.h"

enum { STUCK_TEXT_MAX = 512 };

/* "ID of acme, send-invoice: stuck for 3m on node-1, in step charge (attempt 2)"; of a row of "stuck_executions" in the
 * answer of store_status(). */
void stuck_text(struct output *output, const json_t *row, int64_t now_us, char text[STUCK_TEXT_MAX]);
/* One line for each of "unfinished_steps" in the answer of store_why(). */
void print_unfinished_steps(struct output *output, const json_t *why, int64_t now_us);
/* The name of the first step that has not ended, or NULL: its log shows where the execution hangs.
 * In the output's arena. */
const char *first_unfinished_step(struct output *output, const json_t *why);
/* The command by which a person ends the wait of a WAITING execution; nothing when it waits for something else. `why`: the
 * answer of store_why(). */
void suggest_end_of_wait(struct output *output, const json_t *why);

#endif
