/* The file of the archive, beside the file of the store: its name, its making, and the proof that it is that of the store.
 *
 * `weir.db` has `weir-archive.db`. The file is made by the first move. It has the mode of the store's file, and holds the
 * id of the store. A file with another id, or without one, is refused and never written.
 *
 * Threads: those of the connection.
 */
#ifndef WEIR_STORE_SQLITE_ARCHIVE_FILE_H
#define WEIR_STORE_SQLITE_ARCHIVE_FILE_H

#include "store/sqlite/connection.h"

enum { ARCHIVE_PATH_MAX = 4096, ARCHIVE_STORE_ID_MAX = 64 };

/* The row of archive_state. */
struct archive_state {
    char store_id[ARCHIVE_STORE_ID_MAX];
    int64_t made;
    int64_t moved;
    int64_t moved_at_us; /* 0 = never */
    int64_t lost_at_us;  /* 0 = never */
};

/* The tables of the archive. They have the names and columns of those of the store, so each statement fits both files. */
struct archive_table {
    const char *name;
    enum sqlite_query read;   /* the rows of one execution */
    enum sqlite_query last;   /* rows of it in the store that come behind these; QUERY_COUNT = none */
    enum sqlite_query put;    /* inserts a row */
    enum sqlite_query remove; /* removes those that `read` finds */
    const char *id;           /* the column with the id of the execution */
};
enum { ARCHIVE_TABLES = 5 };
extern const struct archive_table archive_tables[ARCHIVE_TABLES];

/* The path of the archive of a store, or of a backup; false: the store has no file, or the path is too long. */
bool archive_path_of(const char *store_path, char to[ARCHIVE_PATH_MAX]);
enum weir_status archive_read_state(struct connection *connection, struct archive_state *ret_state,
                                    struct weir_error *error);

/* Opens the archive for the transaction that is open on the connection. *ret_archive: NULL when the file is missing and not
 * to be made. With `makes` the connection has the write lock of the store, and the row of archive_state is kept up to date.
 * WEIR_STORE_NOT_WEIR: it belongs to another store, or is none. The caller closes it with sqlite3_close(). */
enum weir_status archive_open(struct connection *connection, bool makes, int64_t now_us, sqlite3 **ret_archive,
                              struct weir_error *error);
/* Whether an empty file is in the place of the archive. An operator makes one for an archive that is lost for good. */
bool archive_is_given_up(struct connection *connection);
/* A failure of the archive's own connection, with its path. */
enum weir_status archive_failure(sqlite3 *archive, const char *doing, struct weir_error *error);

#endif
