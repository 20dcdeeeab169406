/* The target of a request, like /v1/executions/42?status=FAILED: its segments and the arguments of its query, decoded.
 *
 * Strict: the form with a path only, no fragment, no broken %XX, no NUL. The segments are decoded after the path was cut at
 * its slashes, so an encoded slash is part of a name. Pure; any thread.
 */
#ifndef WEIR_SERVER_REQUEST_TARGET_H
#define WEIR_SERVER_REQUEST_TARGET_H

#include <stddef.h>

#include "base/arena.h"

enum { TARGET_SEGMENTS_MAX = 8, TARGET_ARGUMENTS_MAX = 32 };

struct target_argument {
    const char *name;
    char *value; /* "" without one */
};

struct request_target {
    const char *segments[TARGET_SEGMENTS_MAX]; /* of "/" there is none */
    size_t segment_count;
    struct target_argument arguments[TARGET_ARGUMENTS_MAX];
    size_t argument_count;
};

/* Fills `target` with texts in the arena. NULL: it is fine; else the reason why it is refused, as a sentence. */
const char *request_target_read(const char *text, struct arena *arena, struct request_target *target);
/* Removes the arguments without a value. */
void request_target_drop_empty(struct request_target *target);

#endif
