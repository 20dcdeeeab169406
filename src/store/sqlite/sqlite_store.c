/* The SQLite driver: handles, their transactions, backup, and the table of verbs.
 *
 * A handle has a reading connection of its own, opened on first use, and shares the writer of its file with all
 * handles of the process (sqlite_file.c). A handle on a connection of the caller has neither (borrowed_store.c).
 * write_finish() inserts the news and notes the clock before it commits, so that no verb can forget either. A backup copies
 * pages from a read transaction into a new file under another name, and renames it when it is whole; it never overwrites a
 * file.
 *
 * A handle belongs to one thread at a time. It never keeps a transaction open between two calls.
 */
#include "store/sqlite/sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/archive.h"
#include "store/sqlite/borrowed_store.h"

enum {
    BACKUP_STEP_PAGES = 1024,
    /* 31 pages. SQLite moves what is in memory to the file by one write of this length, and its driver of files keeps 17
     * bits of a length. So with any larger value a statement that needs the file fails with SQLITE_FULL. */
    STATEMENT_JOURNAL_BYTES = 128 * 1024 - 1
};

/* --- opening --- */

/* The options of a connection of this handle. */
static struct connection_options options_of(const struct sqlite_store *store, int cache_kib)
{
    return (struct connection_options){.path = store->path,
                                       .create = store->create,
                                       .read_only = store->read_only,
                                       .cache_kib = cache_kib,
                                       .events = store->store.events,
                                       .clock = store->store.clock};
}

/* Allocates a handle with its path. */
static struct sqlite_store *new_store(const char *path)
{
    struct sqlite_store *store = calloc(1, sizeof *store + strlen(path) + 1);
    if (store != NULL) {
        memcpy(store->path, path, strlen(path) + 1);
        store->store.driver = &sqlite_store_driver;
    }
    return store;
}

/* An absolute path, so that a later chdir() of the host program changes nothing. */
static enum weir_status absolute_path(const char *location, char *to, size_t size, struct weir_error *error)
{
    char folder[4096] = "";
    if (location[0] == '\0') {
        error_set(error, WEIR_INVALID_ARGUMENT, "the store's URL has no path");
        error_hint(error, "for example sqlite:./weir.db");
        return WEIR_INVALID_ARGUMENT;
    }
    if (location[0] != '/' && getcwd(folder, sizeof folder) == NULL) {
        return error_set_native(error, WEIR_SYSTEM, errno, "the current folder cannot be named: %s", strerror(errno));
    }
    while (location[0] == '.' && location[1] == '/') {
        location += 2;
    }
    int length = location[0] == '/' ? snprintf(to, size, "%s", location) : snprintf(to, size, "%s/%s", folder, location);
    if (length < 0 || (size_t)length >= size) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the store's path is too long");
    }
    return WEIR_OK;
}

static enum weir_status sqlite_open(const struct store_options *options, const char *location, struct store **ret_store,
                                    struct weir_error *error)
{
    char path[4096];
    enum weir_status status = absolute_path(location, path, sizeof path, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct sqlite_store *store = new_store(path);
    if (store == NULL) {
        return error_out_of_memory(error);
    }
    store->read_only = options->read_only;
    store->create = options->create;
    store->store.clock = options->clock == NULL ? clock_system() : options->clock;
    store->store.events = options->events;
    store->store.uuids = options->uuids;
    store->store.deadline_us = options->deadline_us > 0 ? options->deadline_us : STORE_DEADLINE_US;
    (void)snprintf(store->store.url, sizeof store->store.url, "sqlite:%s", path);
    struct connection_options writer = options_of(store, WRITER_CACHE_KIB);
    status = sqlite_file_open(&writer, &store->file, error);
    if (status != WEIR_OK) {
        free(store);
        return status;
    }
    *ret_store = &store->store;
    return WEIR_OK;
}

static enum weir_status sqlite_open_again(const struct store *store, struct store **ret_store, struct weir_error *error)
{
    const struct sqlite_store *from = (const struct sqlite_store *)store;
    struct sqlite_store *again = new_store(from->path);
    if (again == NULL) {
        return error_out_of_memory(error);
    }
    again->store = from->store;
    again->read_only = from->read_only;
    again->create = from->create;
    again->file = sqlite_file_share(from->file);
    *ret_store = &again->store;
    return WEIR_OK;
}

static void sqlite_close(struct store *store)
{
    struct sqlite_store *self = sqlite_of(store);
    sqlite_wake_close(self);
    connection_close(&self->reader);
    if (self->file != NULL) {
        sqlite_file_release(self->file);
    }
    free(self);
}

enum weir_status store_reader(struct store *store, struct connection **ret_connection, struct weir_error *error)
{
    INVARIANT(ret_connection != NULL);
    struct sqlite_store *self = sqlite_of(store);
    if (self->reader.borrowed) {
        *ret_connection = &self->reader;
        return WEIR_OK;
    }
    if (self->reader.database == NULL) {
        struct connection_options options = options_of(self, READER_CACHE_KIB);
        enum weir_status status = connection_open(&options, &self->reader, error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    self->reader.deadline_boot_us = time_add(clock_boot(clock_system()), store->deadline_us);
    *ret_connection = &self->reader;
    return WEIR_OK;
}

enum weir_status store_begin_read(struct store *store, struct connection **ret_connection, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_connection != NULL);
    struct connection *reader = NULL;
    bool is_old = true;
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && is_old) {
        status = store_reader(store, &reader, error);
        if (status == WEIR_OK) {
            status = connection_begin(reader, QUERY_BEGIN_READ, error);
        }
        if (status != WEIR_OK || reader->borrowed) {
            *ret_connection = reader;
            return status;
        }
        status = archive_attach(reader, &is_old, error);
        if (status == WEIR_SCHEMA_MISSING) {
            status = WEIR_OK; /* a store that was not migrated: the caller's own reading reports that */
        }
        if (status != WEIR_OK || is_old) {
            connection_close(reader);
        }
    }
    *ret_connection = reader;
    return status;
}

enum weir_status snapshot_begin(struct store *store, struct connection **ret_connection, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_connection != NULL);
    if (sqlite_of(store)->reader.borrowed) {
        *ret_connection = &sqlite_of(store)->reader;
        return borrowed_store_begin_read(*ret_connection, error);
    }
    enum weir_status status = sqlite_file_check(sqlite_of(store)->file, error);
    return status == WEIR_OK ? store_begin_read(store, ret_connection, error) : status;
}

void snapshot_end(struct connection *connection)
{
    if (connection->borrowed) {
        borrowed_store_end_read(connection);
    } else {
        connection_rollback(connection);
    }
}

void sqlite_store_tune_process(void)
{
#ifndef WEIR_SQLITE_EXTENSION /* there the host decides */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    (void)sqlite3_config(SQLITE_CONFIG_STMTJRNL_SPILL, STATEMENT_JOURNAL_BYTES);
#endif
}

/* --- transactions --- */

static enum weir_status open_write(struct store *store, struct write *write, bool is_patient, struct weir_error *error)
{
    INVARIANT(store != NULL && write != NULL);
    write->store = sqlite_of(store);
    if (write->store->read_only) {
        return refusal_read_only(store->url, error);
    }
    write->now_us = 0;
    write->connection = &write->store->reader;
    enum weir_status status = write->connection->borrowed ? borrowed_store_begin(write->connection, &write->now_us, error)
                                                          : write_begin(write->store->file, store->deadline_us, is_patient,
                                                                        &write->connection, &write->now_us, error);
    write->asked_us = write->now_us;
    news_init(&write->news, write->now_us);
    write->act.name = NULL;
    return status;
}

enum weir_status write_open(struct store *store, struct write *write, struct weir_error *error)
{
    return open_write(store, write, false, error);
}

enum weir_status write_open_patiently(struct store *store, struct write *write, struct weir_error *error)
{
    return open_write(store, write, true, error);
}

enum weir_status write_open_short(struct store *store, struct write *write, struct weir_error *error)
{
    INVARIANT(store != NULL && write != NULL);
    struct sqlite_file *file = sqlite_of(store)->file; /* NULL: the caller's own connection */
    if (file != NULL) {
        write_announce(file, true);
    }
    enum weir_status status = write_open(store, write, error);
    if (file != NULL) {
        write_announce(file, false);
    }
    return status;
}

enum weir_status write_finish(struct write *write, struct weir_error *error)
{
    INVARIANT(write->connection != NULL);
    sqlite3 *archive = NULL;
    enum weir_status status = news_write(&write->news, write->connection, error);
    if (status == WEIR_OK) {
        status = act_record(write, error);
    }
    if (status == WEIR_OK) {
        status = connection_mark_clock(write->connection, write->now_us, error);
    }
    if (status == WEIR_OK) { /* archive.h has the reason of the order */
        status = archive_commit(write->connection, &archive, error);
    }
    if (status != WEIR_OK) {
        write_undo(write);
        return status;
    }
    status = write->connection->borrowed ? borrowed_store_finish(write->connection, error)
                                         : write_commit(write->store->file, error);
    archive_close(archive); /* it may copy its log, and no other writer waits for that */
    return status;
}

void write_undo(struct write *write)
{
    archive_undo(write->connection);
    if (write->connection->borrowed) {
        borrowed_store_undo(write->connection);
    } else {
        write_cancel(write->store->file);
    }
}

enum weir_status write_end(struct write *write, enum weir_status status, struct weir_error *error)
{
    if (status != WEIR_OK) {
        write_undo(write);
        return status;
    }
    return write_finish(write, error);
}

enum weir_status event_history_add(struct connection *connection, const char *id, int64_t at_us, const char *event,
                                   int64_t node_id, int64_t fence, const char *actor, const char *reason,
                                   const char *detail, struct weir_error *error)
{
    INVARIANT(id != NULL && event != NULL);
    return connection_run(connection, error, NULL, QUERY_INSERT_EVENT, "titiittt", id, at_us, event, node_id, fence, actor,
                          reason, detail);
}

enum weir_status fence_take_next(struct connection *connection, int64_t *ret_fence, struct weir_error *error)
{
    return connection_read_integer(connection, error, ret_fence, QUERY_NEXT_FENCE, "");
}

static enum weir_status sqlite_time(struct store *store, int64_t *ret_now_us, struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = store_reader(store, &connection, error);
    return status == WEIR_OK ? connection_store_time(connection, ret_now_us, error) : status;
}

/* --- backup --- */

/* Copies the pages in steps, with progress. */
static enum weir_status copy_pages(const struct store *store, sqlite3 *from, sqlite3 *to, struct weir_error *error)
{
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    if (backup == NULL) {
        return error_set(error, WEIR_FAILED, "the backup cannot start: %s", sqlite3_errmsg(to));
    }
    /* The first step copies nothing and counts the pages. A reading connection sees one state for the whole copy; writers
     * go on. */
    int code = sqlite3_backup_step(backup, 0);
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED)) {
        int total = sqlite3_backup_pagecount(backup);
        status = store_report_progress(store, total - sqlite3_backup_remaining(backup), total, error);
        if (status == WEIR_OK) {
            code = sqlite3_backup_step(backup, BACKUP_STEP_PAGES);
        }
    }
    int total = sqlite3_backup_pagecount(backup);
    (void)sqlite3_backup_finish(backup); /* leaves its failure on the copy's connection */
    if (status == WEIR_OK && code != SQLITE_DONE) {
        status = connection_failure(&(struct connection){.database = to}, "the backup failed", error);
        error_prefix(error, "%s", sqlite3_db_filename(to, "main"));
        if (status == WEIR_STORE_FULL) {
            error_hint(error, "free some disk space, or give a path on another disk; no file was left behind");
        }
        return status;
    }
    return status == WEIR_OK ? store_report_progress(store, total, total, error) : status;
}

/* A store that is restored from the copy gives the positions of later changes again, so the stream must begin anew there.
 */
static enum weir_status end_stream_of_copy(sqlite3 *copy, struct weir_error *error)
{
    int code = sqlite3_exec(copy, sqlite_queries[QUERY_END_STREAM].sql, NULL, NULL, NULL);
    if (code == SQLITE_OK || code == SQLITE_ERROR) { /* the latter: it has no schema yet */
        return WEIR_OK;
    }
    enum weir_status status = connection_failure(&(struct connection){.database = copy}, "the backup failed", error);
    error_prefix(error, "%s", sqlite3_db_filename(copy, "main"));
    return status;
}

/* A name that is taken, also by a symbolic link to nothing. */
static enum weir_status require_free(const char *path, const char *hint, struct weir_error *error)
{
    struct stat facts;
    if (lstat(path, &facts) != 0) {
        return WEIR_OK;
    }
    error_set(error, WEIR_CONFLICT, "%s exists already", path);
    error_hint(error, "%s", hint);
    return WEIR_CONFLICT;
}

/* The copy gets its name when it is whole. Where the file system cannot rename without replacing, it links. */
static enum weir_status give_name(const char *from, const char *to, struct weir_error *error)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 || (errno == EINVAL && link(from, to) == 0)) {
        return WEIR_OK;
    }
    int native = errno;
    return error_set_native(error, native == EEXIST ? WEIR_CONFLICT : WEIR_SYSTEM, native,
                            "the backup cannot be named %s: %s", to, strerror(native));
}

/* Copies all pages of a database into a new file, from one read transaction. */
static enum weir_status copy_to(struct store *store, sqlite3 *source, const char *path, bool has_stream,
                                struct weir_error *error)
{
    sqlite3 *target = NULL;
    enum weir_status status = WEIR_OK;
    if (sqlite3_open_v2(path, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, NULL) !=
        SQLITE_OK) {
        status = error_set(error, WEIR_STORE_UNREACHABLE, "cannot write %s: %s", path,
                           target == NULL ? "out of memory" : sqlite3_errmsg(target));
        error_hint(error, "its folder must be there, and this user must be allowed to write to it");
    } else {
        status = copy_pages(store, source, target, error);
    }
    if (status == WEIR_OK && has_stream) {
        status = end_stream_of_copy(target, error);
    }
    (void)sqlite3_close(target);
    return status;
}

static enum weir_status copy_store(struct store *store, const char *path, struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = store_reader(store, &connection, error);
    if (status == WEIR_OK) {
        status = connection_begin(connection, QUERY_BEGIN_READ, error);
    }
    if (status == WEIR_OK) {
        status = copy_to(store, connection->database, path, true, error);
        connection_rollback(connection);
    }
    return status;
}

/* A file of a backup: its name when it is whole, and before. */
struct backup_name {
    const char *path;
    char partial[PATH_MAX];
};

static enum weir_status find_backup_name(const char *path, struct backup_name *ret_name, struct weir_error *error)
{
    ret_name->path = path;
    int length = snprintf(ret_name->partial, sizeof ret_name->partial, "%s.partial", path);
    if (length < 0 || (size_t)length >= sizeof ret_name->partial) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the path of the backup is too long");
    }
    enum weir_status status = require_free(path, "a backup never overwrites; give a new path", error);
    return status == WEIR_OK
               ? require_free(ret_name->partial, "it is of a backup that runs or was killed; remove it if none runs", error)
               : status;
}

/* The archive is copied after the store, so that it has all content that the copy of the store does not have. It gets its
 * name first: a copy of the store is then never without it. */
static enum weir_status backup_both(struct store *store, sqlite3 *archive, struct backup_name *of_store,
                                    struct backup_name *of_archive, struct weir_error *error)
{
    enum weir_status status = copy_store(store, of_store->partial, error);
    if (status == WEIR_OK && archive != NULL) {
        status = copy_to(store, archive, of_archive->partial, false, error);
    }
    if (status == WEIR_OK && archive != NULL) {
        status = give_name(of_archive->partial, of_archive->path, error);
    }
    if (status == WEIR_OK) {
        status = give_name(of_store->partial, of_store->path, error);
    }
    (void)unlink(of_store->partial); /* of a backup that failed, or the second link */
    if (archive != NULL) {
        (void)unlink(of_archive->partial);
    }
    return status;
}

static enum weir_status sqlite_backup(struct store *store, const char *path, struct weir_error *error)
{
    struct backup_name of_store;
    struct backup_name of_archive;
    char archive_path[ARCHIVE_PATH_MAX] = "";
    struct connection *connection;
    sqlite3 *archive = NULL;
    enum weir_status status = find_backup_name(path, &of_store, error);
    if (status == WEIR_OK) {
        status = store_reader(store, &connection, error);
    }
    if (status == WEIR_OK) {
        status = archive_open(connection, false, 0, &archive, error);
        status = status == WEIR_SCHEMA_MISSING ? WEIR_OK : status;
    }
    if (status == WEIR_OK && archive != NULL) {
        status = archive_path_of(path, archive_path)
                     ? find_backup_name(archive_path, &of_archive, error)
                     : error_set(error, WEIR_INVALID_ARGUMENT, "the path of the backup is too long");
    }
    if (status == WEIR_OK) {
        status = backup_both(store, archive, &of_store, &of_archive, error);
    }
    archive_close(archive);
    return status;
}

const struct store_driver sqlite_store_driver = {
    .scheme = "sqlite",
    .features = STORE_WAKES,
    .open = sqlite_open,
    .open_again = sqlite_open_again,
    .close = sqlite_close,
    .require_schema = sqlite_require_schema,
    .plan = sqlite_plan,
    .migrate = sqlite_migrate,
    .check = sqlite_check,
    .backup = sqlite_backup,
    .time = sqlite_time,
    .enqueue = sqlite_enqueue,
    .role = sqlite_role,
    .schedule = sqlite_schedule,
    .publish_books = sqlite_publish_books,
    .inbox = sqlite_inbox,
    .read_definition = sqlite_read_definition,
    .record = sqlite_record,
    .node_start = sqlite_node_start,
    .node_target = sqlite_node_target,
    .node_handlers = sqlite_node_handlers,
    .node_beat = sqlite_node_beat,
    .mark_stuck = sqlite_mark_stuck,
    .node_stop = sqlite_node_stop,
    .desired_state = sqlite_set_desired_state,
    .recover = sqlite_recover,
    .take_requests = sqlite_take_requests,
    .signal = sqlite_signal,
    .bulk = sqlite_bulk,
    .set_plan = sqlite_set_plan,
    .set_workspace = sqlite_set_workspace,
    .rename_workspace = sqlite_rename_workspace,
    .delete_workspace = sqlite_delete_workspace,
    .erase_workspace = sqlite_erase_workspace,
    .set_workflow_state = sqlite_set_workflow_state,
    .set_paused = sqlite_set_paused,
    .publish = sqlite_publish,
    .lock = sqlite_lock,
    .lock_extend = sqlite_lock_extend,
    .unlock = sqlite_unlock,
    .list = sqlite_list,
    .show = sqlite_show,
    .why = sqlite_why,
    .find_living = sqlite_find_living,
    .find_in_workspaces = sqlite_find_in_workspaces,
    .status = sqlite_status,
    .write_logs = sqlite_write_logs,
    .list_logs = sqlite_list_logs,
    .read_log = sqlite_read_log,
    .archive = sqlite_archive,
    .purge_logs = sqlite_purge_logs,
    .write_progress = sqlite_write_progress,
    .note_act = sqlite_note_act,
    .purge_audit = sqlite_purge_audit,
    .token_create = sqlite_token_create,
    .token_revoke = sqlite_token_revoke,
    .tokens_read = sqlite_tokens_read,
    .tokens_used = sqlite_tokens_used,
    .hook_set = sqlite_hook_set,
    .hook_pause = sqlite_hook_pause,
    .hook_delete = sqlite_hook_delete,
    .read_hook_events = sqlite_read_hook_events,
    .settle_hook_events = sqlite_settle_hook_events,
    .trim_hook_events = sqlite_trim_hook_events,
    .advance_children = sqlite_advance_children,
    .schedule_set = sqlite_schedule_set,
    .schedule_pause = sqlite_schedule_pause,
    .schedule_delete = sqlite_schedule_delete,
    .schedule_trigger = sqlite_schedule_trigger,
    .read_due_schedules = sqlite_read_due_schedules,
    .advance_schedule = sqlite_advance_schedule,
    .read_schedule_firings = sqlite_read_schedule_firings,
    .settle_schedule_firings = sqlite_settle_schedule_firings,
    .read_stream = sqlite_read_stream,
    .purge_stream = sqlite_purge_stream,
    .sample_history = sqlite_sample_history,
    .write_history = sqlite_write_history,
    .read_history = sqlite_read_history,
    .wake_fd = sqlite_wake_fd,
    .wake_drain = sqlite_wake_drain,
};
