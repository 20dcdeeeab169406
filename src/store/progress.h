/* The progress of running attempts: the last report of each handler that reports any.
 *
 * The node that runs an attempt writes its newest report, once a second at most, in a set with those of its other attempts.
 * A report changes no row of the queue and makes no news. It counts only while the node holds the execution under the fence
 * of the attempt, so that of a former claim changes nothing. The view `executions` shows the reports of the present claim
 * alone. The node removes a report soon after the end of its attempt. That of a node that stops or dies before goes
 * with the execution (purge), or with the next report of its step. store/logs.h includes this file.
 */
#ifndef WEIR_STORE_PROGRESS_H
#define WEIR_STORE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/limits.h"
#include "weir/status.h"

struct store;

enum { PROGRESS_WRITE_MOST = 64 /* reports of one call */ };

struct progress_record {
    const char *execution_id;
    const char *step;
    int attempt;
    int64_t fence;
    bool is_over;     /* the attempt has ended: its report is removed */
    int64_t at_us;    /* store time */
    int parts;        /* 0 to PROGRESS_PARTS; -1 = unknown */
    const char *text; /* UTF-8 without control characters, at most PROGRESS_TEXT_MAX bytes; "" = none */
};
/* One transaction. At most one record for each step. A report whose execution is not held under its fence, or that is older
 * than the one in the store, changes nothing and is no error. */
WEIR_MUST_CHECK enum weir_status store_write_progress(struct store *store, const struct progress_record *records,
                                                      size_t count, struct weir_error *error);

#endif
