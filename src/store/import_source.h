/* The queue of another system, read row by row to be enqueued here: nFlow, and Riven's workflow execution queue.
 *
 *     import_source_open()  import_source_count()  import_source_next() until it has no rows  import_source_close()
 *
 * Both systems keep their rows in PostgreSQL; src/store/postgres/import_source.c is the only reader. All of one source is
 * read in one transaction, READ ONLY and REPEATABLE READ, so the rows are those of one moment and nothing is changed
 * there. A source is no store: it has no verbs, and its connection ends with it.
 *
 * A row comes as the JSON of its columns, because no column but the id is certain to be there or to have its type. The
 * meaning of the columns is the reader's business (cli/verbs/import_row.h).
 *
 * Threads: one. Errors: WEIR_INVALID_ARGUMENT (the URL), WEIR_STORE_UNREACHABLE, WEIR_NOT_PERMITTED (a missing right), and
 * those of a link. WEIR_NOT_FOUND: no such table. WEIR_STORE_NOT_WEIR: a table without a column that is needed.
 */
#ifndef WEIR_STORE_IMPORT_SOURCE_H
#define WEIR_STORE_IMPORT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

enum {
    IMPORT_BATCH = 100,                   /* rows of one read */
    IMPORT_COLUMNS_BYTES_MAX = 64 * 1024, /* of the columns of a row, as JSON text */
    IMPORT_DATA_BYTES_MAX = 1024 * 1024,  /* of its data */
    IMPORT_STATES_MOST = 1000             /* ended types and states that are counted apart */
};

enum import_system { IMPORT_NFLOW, IMPORT_RIVEN };

struct import_options {
    enum import_system system;
    const char *url;     /* postgres://..., with ?schema=NAME where the tables are not in the schema public */
    const char *group;   /* only rows of this executor group of nFlow; NULL = all */
    int64_t since_us;    /* only rows that were made then or later; 0 = all */
    int64_t deadline_us; /* of each call; 0 = IMPORT_DEADLINE_US */
};

/* The texts live until the next call of import_source_next(). */
struct import_row {
    const char *id;      /* at most 300 characters; NULL in the source: NULL */
    const char *columns; /* a JSON object; NULL: it has more than IMPORT_COLUMNS_BYTES_MAX bytes */
    size_t columns_length;
    const char *data; /* nFlow: a JSON object of texts, the state variables; Riven: the input. NULL: none, or too large */
    size_t data_length;
    int64_t data_bytes; /* more than IMPORT_DATA_BYTES_MAX: too large, and `data` is NULL */
};

struct import_source;

/* Connects, begins the transaction, and checks tables, columns and rights. */
WEIR_MUST_CHECK enum weir_status import_source_open(const struct import_options *options, struct import_source **ret_source,
                                                    struct weir_error *error);
/* Takes NULL. */
void import_source_close(struct import_source *source);
/* Calls `note` for each type and state of rows that have ended, with their number: import_source_next() has none of them.
 * *ret_open: the number of the other rows. Texts may be NULL. */
typedef void import_note(void *context, const char *type, const char *state, int64_t count);
WEIR_MUST_CHECK enum weir_status import_source_count(struct import_source *source, import_note *note, void *context,
                                                     int64_t *ret_open, struct weir_error *error);
/* The next rows that have not ended, at most IMPORT_BATCH, the oldest first; *ret_count 0 = there are no more. */
WEIR_MUST_CHECK enum weir_status import_source_next(struct import_source *source, struct import_row *rows,
                                                    size_t *ret_count, struct weir_error *error);

#endif
