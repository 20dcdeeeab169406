/* The record of acts: the one place of this driver that writes the table `audit`.
 *
 * 1. A verb calls act_begin() after write_open(): it reads the setting that the act is about to change.
 * 2. The verb makes its change, and sets write->act.affected if executions are concerned.
 * 3. write_finish() calls act_record(): it reads the setting again, and inserts the row. So the row commits with the act,
 * and an act that fails leaves none. Without an actor nothing is read or written: the handle is that of a node.
 *
 * It never changes another table. Runs in the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/sqlite_store.h"

/* Reads the present value of the setting of the act. A value that does not fit is left out: half of it is no JSON. */
static enum weir_status act_read_setting(struct write *write, char *to, size_t size, struct weir_error *error)
{
    const struct act *act = &write->act;
    enum weir_status status = WEIR_OK;
    to[0] = '\0';
    if (act->kind == NULL) {
        return WEIR_OK;
    }
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_READ_SETTING, "ttti", act->kind, act->key,
                                              act->owner, write->now_us);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        const char *text = column_text(statement, 0);
        if (text != NULL && strlen(text) < size) {
            text_copy(to, size, text);
        }
        (void)sqlite3_reset(statement);
    }
    return status;
}

enum weir_status act_begin(struct write *write, const char *name, const char *kind, const char *key, const char *owner,
                           struct weir_error *error)
{
    INVARIANT(write != NULL && name != NULL && write->act.name == NULL);
    struct store *store = &write->store->store;
    if (store_actor(store) == NULL) {
        return WEIR_OK;
    }
    write->act = (struct act){.name = name, .kind = kind, .key = key, .owner = owner};
    return act_read_setting(write, store->change.before, sizeof store->change.before, error);
}

enum weir_status act_insert(struct connection *connection, const struct store *store, int64_t now_us, const char *act,
                            const char *subject, int64_t affected, struct weir_error *error)
{
    return connection_run(connection, error, NULL, QUERY_INSERT_ACT, "itttttti", now_us, store->actor, act, subject,
                          store_reason(store), store->change.before, store->change.after, affected);
}

enum weir_status act_record(struct write *write, struct weir_error *error)
{
    INVARIANT(write != NULL);
    const struct act *act = &write->act;
    struct store *store = &write->store->store;
    char subject[SUBJECT_MAX + 1];
    if (act->name == NULL) {
        return WEIR_OK;
    }
    bool is_group = act->kind != NULL && strcmp(act->kind, "group") == 0;
    (void)snprintf(subject, sizeof subject, "%s%s%s",
                   is_group             ? "group "
                   : act->owner == NULL ? ""
                                        : act->owner,
                   act->owner == NULL ? "" : "/", act->key);
    enum weir_status status = act_read_setting(write, store->change.after, sizeof store->change.after, error);
    const struct act_change *change = &store->change;
    if (status == WEIR_OK && act->needs_change && change->before[0] != '\0' && strcmp(change->before, change->after) == 0) {
        return WEIR_OK;
    }
    if (act->arguments != NULL) {
        text_copy(store->change.after, sizeof store->change.after, act->arguments);
    }
    return status == WEIR_OK ? act_insert(write->connection, store, write->now_us, act->name, subject, act->affected, error)
                             : status;
}

/* --- acts without a row, and retention --- */

enum weir_status sqlite_note_act(struct store *store, const char *act, const char *subject, const char *detail,
                                 struct weir_error *error)
{
    struct write write;
    INVARIANT(act != NULL && subject != NULL);
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_run(write.connection, error, NULL, QUERY_NOTE_ACT, "ittttt", write.now_us, store->actor, act,
                            subject, store_reason(store), detail);
    return write_end(&write, status, error);
}

enum weir_status sqlite_purge_audit(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                    struct weir_error *error)
{
    INVARIANT(limit <= AUDIT_PURGE_MOST && ret_removed != NULL);
    struct write write;
    struct connection *reader;
    int64_t removed = 0;
    int64_t any = 0;
    enum weir_status status = store_reader(store, &reader, error);
    if (status == WEIR_OK) { /* a store without old acts is not written */
        status = connection_read_integer(reader, error, &any, QUERY_HAS_OLD_ACTS, "i", before_us);
    }
    if (status == WEIR_OK && any != 0) {
        status = write_open(store, &write, error);
        if (status != WEIR_OK) {
            return status;
        }
        status = connection_run(write.connection, error, &removed, QUERY_PURGE_AUDIT, "ii", before_us, (int64_t)limit);
        if (status != WEIR_OK) {
            write_undo(&write);
            return status;
        }
        status = write_finish(&write, error);
    }
    if (status == WEIR_OK) {
        *ret_removed = removed;
    }
    return status;
}
