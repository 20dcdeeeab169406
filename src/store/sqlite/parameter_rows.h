/* The table `parameter_rows` of our connections: a set of rows in memory, so that one statement handles a whole set.
 *
 * A statement that runs once per item opens the cursors of all indexes each time, which costs as much as the change itself.
 * With this virtual table the ends of a set are one INSERT and one DELETE. The caller fills connection->parameter_rows,
 * runs the statement and takes the rows away again; without rows the table is empty. Read only.
 *
 * Columns:
 *   of the record   at (the index), id, fence, number, node_id, lane_id, rank, status, dispatched, refused,
 *                   error_code, error
 *   times           due_at, claimed_at, dispatched_at, started_at, step_due_at, step_started_at, step_finished_at;
 *                   0 is NULL
 *   of its step     step, step_status, step_attempt, step_failures, step_exit_code, step_output, step_variables,
 *                   step_error_code, step_error, step_signal
 */
#ifndef WEIR_STORE_SQLITE_PARAMETER_ROWS_H
#define WEIR_STORE_SQLITE_PARAMETER_ROWS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct step_record;

/* Text is borrowed until the statement has run. */
struct parameter_row {
    const char *id;
    int64_t fence;
    int64_t number;
    int64_t node_id;
    int64_t lane_id;
    int64_t rank;
    const char *status;
    const char *error_code;
    const char *error;
    const struct step_record *step; /* NULL = none */
    bool dispatched;
    int64_t due_us;
    int64_t claimed_us;
    int64_t dispatched_us;
    int64_t started_us;
    int64_t step_due_us;
    int64_t step_started_us;
    int64_t step_finished_us;
    bool refused;
};

struct parameter_rows {
    const struct parameter_row *rows;
    size_t count;
};

/* `rows` must stay where it is until the database is closed or parameter_rows_unregister() is called. SQLITE_OK, or the
 * code of the failure. */
int parameter_rows_register(sqlite3 *database, const struct parameter_rows *rows);
/* No statement that uses the table may be left. */
void parameter_rows_unregister(sqlite3 *database);

#endif
