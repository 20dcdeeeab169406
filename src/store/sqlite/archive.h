/* The archive of a SQLite store: what moves there, how it comes back, and how readers see it.
 *
 * Two files that are attached to one connection do not commit as one over a power cut. So each write has an order in which
 * a crash between the two commits is harmless:
 *
 *   move:        copy into the archive, commit it; then remove from the store and set `archived`, commit.
 *   purge:       remove from the archive, commit it; then remove the row of the history, commit.
 *   bring back:  copy into the store and clear `archived`, commit. The archive keeps a copy that nobody reads.
 *
 * The column `archived` of the history row alone decides which side counts, so a copy that is left over is invisible. The
 * next move of the execution replaces it, and its purge removes it. All three have the write lock of the store, so no
 * other process changes either side meanwhile.
 */
#ifndef WEIR_STORE_SQLITE_ARCHIVE_H
#define WEIR_STORE_SQLITE_ARCHIVE_H

#include "store/sqlite/archive_file.h"

/* Removes what the archive has of an execution before it is purged. Opens the archive for the transaction if it was made.
 * *ret_is_away: its content is in an archive that is missing or foreign, so it cannot be removed. An empty file in the
 * place of the archive counts as its content: an operator has given up a lost archive by it. */
enum weir_status archive_erase(struct connection *connection, const char *id, bool *ret_is_away, struct weir_error *error);
/* Brings the content of an archived execution back into the store, before an act adds to it. *ret_complete: false when the
 * archive is missing, and nothing is changed; or when the archive has lost it, and then the execution counts as not
 * archived, without its content. Does nothing for others. */
enum weir_status archive_bring_back(struct connection *connection, const char *id, bool *ret_complete,
                                    struct weir_error *error);
/* Whether an archived execution has these params, NULL = none. True when the archive is missing or cannot be read. */
enum weir_status archive_has_params(struct connection *connection, const char *id, const char *params, size_t length,
                                    bool *ret_has, struct weir_error *error);

/* The transaction of the archive: committed before, or undone with, that of the store. Both do nothing without one. The
 * archive stays open until archive_close(), which may take time. */
enum weir_status archive_commit(struct connection *connection, sqlite3 **ret_archive, struct weir_error *error);
void archive_undo(struct connection *connection);
void archive_close(sqlite3 *archive);

/* Attaches the archive to a reading connection with an open transaction, when it was made since, and begins the transaction
 * again. Then temporary views with the names of the tables show both. A missing or foreign archive is left out: `weir
 * doctor` reports it. *ret_is_old: another making is attached, and the connection must be opened anew; so it must after a
 * failure. */
enum weir_status archive_attach(struct connection *reader, bool *ret_is_old, struct weir_error *error);

/* The answer to `weir status`: {"moved", "moved_at", "bytes", "problem"}. */
enum weir_status archive_add_status(struct connection *connection, json_t *status, struct weir_error *error);

#endif
