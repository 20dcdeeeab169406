/* The archive: where the content of old executions lies, so that the tables of daily work stay small.
 *
 * An archived execution keeps its row in the history, with state, times, key, error and labels. So lists, filters, look-ups
 * of keys and the rights of roles work alike for all executions. Its content has moved: params, steps with their outputs,
 * attempts, actions of states, and events. On PostgreSQL it lies in monthly tables, on SQLite in a second file beside the
 * store. Readers see it in its old place. An act that adds to the content of an execution, like a retry, brings it back
 * first. docs/design/archive.md has the reasons. store/store.h includes this file.
 */
#ifndef WEIR_STORE_ARCHIVE_H
#define WEIR_STORE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/uuid.h"
#include "weir/status.h"

struct store;

enum {
    ARCHIVE_BATCH = 100,     /* executions of one transaction */
    ARCHIVE_LOOK_ROWS = 2000 /* rows that it looks at, at most */
};

/* The next executions of the history, in the order of their ids. */
struct archive_order {
    int64_t ended_before_us;   /* move those that ended before; store time */
    char after[UUID_TEXT_MAX]; /* behind this id; "" = from the first one */
    size_t limit;              /* at most so many executions move; 1 to ARCHIVE_BATCH */
    bool is_whole;             /* look at ids of the next day, too: clocks of programs that make ids may be ahead */
};

struct archive_result {
    int64_t moved;
    int64_t dropped;             /* monthly tables that were empty (PostgreSQL) */
    char last_id[UUID_TEXT_MAX]; /* the last row that was looked at; without more, the first id of ended_before_us */
    bool more;                   /* call again, with last_id as `after` */
};

/* Moves the content of the next executions to the archive, in one transaction, and drops months of which no execution is
 * left. Of two callers at once the second one moves nothing. An execution stays while a step of its parent may need its
 * result. WEIR_STORE_NOT_WEIR: the file of the archive belongs to another store, or is none. */
WEIR_MUST_CHECK enum weir_status store_archive(struct store *store, const struct archive_order *order,
                                               struct archive_result *ret_result, struct weir_error *error);

#endif
