/* A SQLite file that is open in this process, with the one writer that all handles of the process share.
 *
 * SQLite has one writer at a time. So a process keeps one writer connection per file, behind a mutex. Threads queue for
 * it instead of polling SQLite's lock, and its page cache stays warm. The calls that wait during a commit are the next
 * set. Other processes are waited for by a busy handler. Both waits end at the handle's deadline. Reads use a
 * connection of the handle's own and never wait for the writer (WAL).
 *
 * Threads: any.
 */
#ifndef WEIR_STORE_SQLITE_SQLITE_FILE_H
#define WEIR_STORE_SQLITE_SQLITE_FILE_H

#include "store/sqlite/connection.h"

struct sqlite_file;

/* Opens or joins the writer of this file (by device and inode). Waits while another process makes the file. */
enum weir_status sqlite_file_open(const struct connection_options *options, struct sqlite_file **ret_file,
                                  struct weir_error *error);
struct sqlite_file *sqlite_file_share(struct sqlite_file *file);
void sqlite_file_release(struct sqlite_file *file);
/* The schema is committed, or cannot be made: processes that wait for a new file go on. The caller has the writer. */
void sqlite_file_made(struct sqlite_file *file);
/* For readers, who need no log: whether the database is still the opened one. Any thread. */
enum weir_status sqlite_file_check(const struct sqlite_file *file, struct weir_error *error);

/* Takes the writer and begins a transaction; on WEIR_OK it must be ended by write_commit() or write_cancel(). Reads the
 * store time of the transaction into *ret_now_us. A patient caller lets other callers and an expected round go
 * first. */
enum weir_status write_begin(struct sqlite_file *file, int64_t deadline_us, bool is_patient,
                             struct connection **ret_connection, int64_t *ret_now_us, struct weir_error *error);
/* A failed commit has changed nothing that a reader can see; the writer is free again in any case. WEIR_COMMIT_UNKNOWN: the
 * disk did not confirm it, and a crash may bring it back. */
enum weir_status write_commit(struct sqlite_file *file, struct weir_error *error);
void write_cancel(struct sqlite_file *file);
/* A short call begins (true) or ends to wait for the writer. A long transaction commits early while one waits. */
void write_announce(struct sqlite_file *file, bool waits);
bool write_is_awaited(struct sqlite_file *file);
/* For tests: the number of threads that wait for the writer, and when its last reservation for a round ends or has ended.
 */
size_t write_waiting(struct sqlite_file *file);
int64_t write_reserved_until_us(struct sqlite_file *file);
/* Whether the rounds of the scheduler run in this process, in a thread of their own. */
void write_set_scheduler(struct sqlite_file *file, bool has_scheduler);
/* In a transaction: the scheduler runs a round soon after its commit, and patient callers let it go first. Ignored without
 * a scheduler in this process. */
void write_expect_round(struct sqlite_file *file);
/* Takes the writer without a transaction (migrations, checks). write_cancel() gives it back. */
enum weir_status write_reserve(struct sqlite_file *file, int64_t deadline_us, struct connection **ret_connection,
                               struct weir_error *error);

#endif
