/* The sentences of `weir why`, `status`, `doctor` and `enqueue` about handlers that no live node has. One thread. */
#ifndef WEIR_CLI_VERBS_NO_WORKER_H
#define WEIR_CLI_VERBS_NO_WORKER_H

#include <jansson.h>

#include "cli/output/output.h"

enum { WORKER_TEXT_MAX = 512 };

/* Whether the answer of store_why(), or a row of "no_worker" in that of store_status(), names handlers that no node has. */
bool lacks_worker(const json_t *row);
/* "handlers render, send: no live node of the group default has them; the last one was NAME (python 3.11), 3m ago". */
void worker_text(struct output *output, const json_t *row, int64_t now_us, char text[WORKER_TEXT_MAX]);
/* The command that starts a program with the handlers, by the language of the last one. */
const char *worker_command(const json_t *row);

#endif
