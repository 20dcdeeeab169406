/* A signal of an execution: a name and data, which a step of the kind `signal` waits for.
 *
 * The signals of an execution are numbered from 1, in the order of their transactions. The store keeps each; a step
 * consumes at most one, and each is consumed at most once. Plain data.
 */
#ifndef WEIR_QUEUE_SIGNAL_H
#define WEIR_QUEUE_SIGNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "queue/limits.h"

/* Acts on a step reach its node as signals, too, with names that no definition and no caller can have: a prefix, and the
 * id of the step. So they are durable, come with each claim, and are consumed once.
 *   WAKE_SIGNAL  ends the wait of a step early. Data: the number of the attempt that waits, so that it ends no later wait
 */
#define WAKE_SIGNAL "wake:"
/*   APPROVAL_SIGNAL  the decision for a step of the kind `approve`, which is its output */
#define APPROVAL_SIGNAL "approve:"
/*   CHILDREN_SIGNAL  the children of a step of the kind `start` are waited for no longer. Data: {output} of the step, or
 *                {code, error} of its failure. The store sends it itself (store/children.h), and no list shows it */
#define CHILDREN_SIGNAL "children:"
/*   CALLBACK_SIGNAL  the report of a function to a step `http`. Behind the id of the step, each after a colon: the attempt,
 *                    and a part of the hash of its token (base/callback_token.h). Data: {"output"}, or {"error_code",
 *                    "error", "retry"} */
#define CALLBACK_SIGNAL "callback:"

/*   MANUAL_SIGNAL    a `manual` state waits for an act that changes it; none is sent under this name. Behind it the step */
#define MANUAL_SIGNAL "manual:"

struct signal_record {
    int64_t seq;
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    const char *data; /* JSON text, never NULL; the holder says to which memory it belongs */
    size_t data_length;
};

static inline bool signal_is_of_children(const char *name)
{
    return strncmp(name, CHILDREN_SIGNAL, sizeof CHILDREN_SIGNAL - 1) == 0;
}

static inline bool signal_is_manual(const char *name)
{
    return strncmp(name, MANUAL_SIGNAL, sizeof MANUAL_SIGNAL - 1) == 0;
}

/* The bytes of data that an execution keeps of one name, when its workflow has this many. The names share the bound, so
 * that a busy name leaves room for the others. Each has room for one signal. */
static inline int64_t signal_bytes_most(int64_t names)
{
    int64_t share = SIGNALS_KEPT_BYTES_MOST / (names < 1 ? 1 : names);
    return share < SIGNAL_DATA_BYTES_MAX ? SIGNAL_DATA_BYTES_MAX : share;
}

#endif
