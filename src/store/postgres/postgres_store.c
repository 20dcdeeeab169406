/* The PostgreSQL driver: opens and closes handles, and has the table of the verbs.
 *
 * A handle has a connection of its own; handles that are opened again from it share the address and the listener. The open
 * connects once, the later handles at their first verb. Each verb is in the file of its name (read.c, record.c ...).
 *
 * This file sends no statement but the clock. A handle is used by one thread at a time. */
#include "store/postgres/postgres_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "observe/event.h"
#include "store/postgres/link/listen.h"
#include "store/refusal.h"

/* A handle of the address, not connected yet; NULL = out of memory. */
static struct postgres_store *allocate_store(struct address *address, const struct store *facts)
{
    struct postgres_store *store = calloc(1, sizeof *store);
    if (store != NULL) {
        store->store = *facts;
        store->store.driver = &postgres_store_driver;
        store->address = address_share(address);
        text_copy(store->store.url, sizeof store->store.url, address->shown);
        link_init(&store->link, address, facts->deadline_us, "weir");
    }
    return store;
}

/* libpq falls back to a plain connection by default; toward another machine that deserves a warning. */
static void warn_of_optional_tls(const struct address *address, struct event_bus *events)
{
    const char *mode = address_optional_tls(address);
    if (mode != NULL) {
        char text[WEIR_ERROR_MESSAGE_MAX];
        (void)snprintf(
            text, sizeof text,
            "the store %s is on another machine and sslmode=%s does not demand TLS: a machine on the way may read"
            " the password's exchange and the data, or answer as the server; write sslmode=verify-full and sslrootcert",
            address->shown, mode);
        event_emit(events, &(struct event){.type = EVENT_STORE_TLS_OPTIONAL, .error = text});
    }
}

static enum weir_status postgres_open(const struct store_options *options, const char *location, struct store **ret_store,
                                      struct weir_error *error)
{
    INVARIANT(options != NULL && location != NULL && ret_store != NULL);
    struct address *address = NULL;
    struct store facts = {.clock = options->clock == NULL ? clock_system() : options->clock,
                          .events = options->events,
                          .uuids = options->uuids,
                          .deadline_us = options->deadline_us > 0 ? options->deadline_us : STORE_DEADLINE_US};
    enum weir_status status = address_parse(location, &address, error);
    if (status != WEIR_OK) {
        return status;
    }
    warn_of_optional_tls(address, options->events);
    struct postgres_store *store = allocate_store(address, &facts);
    address_release(address);
    if (store == NULL) {
        return error_out_of_memory(error);
    }
    store->read_only = options->read_only;
    /* Connect at once, so that a wrong address or password is an error of the open and not of the first verb. */
    status = link_connect(link_of(&store->store), error);
    if (status != WEIR_OK) {
        store->store.driver->close(&store->store);
        return status;
    }
    *ret_store = &store->store;
    return WEIR_OK;
}

static enum weir_status postgres_open_again(const struct store *store, struct store **ret_store, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_store != NULL);
    const struct postgres_store *from = (const struct postgres_store *)store;
    struct postgres_store *again = allocate_store(from->address, store);
    if (again == NULL) {
        return error_out_of_memory(error);
    }
    again->read_only = from->read_only;
    *ret_store = &again->store;
    return WEIR_OK;
}

static void postgres_close(struct store *store)
{
    struct postgres_store *self = postgres_of(store);
    listener_leave(self->subscription);
    news_position_forget(&self->news);
    item_names_clear(&self->names);
    link_close(&self->link);
    address_release(self->address);
    free(self);
}

enum weir_status postgres_require_writable(struct store *store, struct weir_error *error)
{
    if (postgres_of(store)->read_only) {
        return refusal_read_only(store->url, error);
    }
    return WEIR_OK;
}

static enum weir_status postgres_time(struct store *store, int64_t *ret_now_us, struct weir_error *error)
{
    return link_read_integer(link_of(store), error, ret_now_us, QUERY_READ_CLOCK, "");
}

enum { PG_DUMP_ARGUMENTS_MAX = 140 }; /* bytes of the path and the URL that fit into a hint */

/* Refused with the command that does it. */
static enum weir_status postgres_backup(struct store *store, const char *path, struct weir_error *error)
{
    const char *schema = postgres_of(store)->address->schema;
    error_set(error, WEIR_INVALID_ARGUMENT, "weir does not copy a PostgreSQL store; use the tools of the server");
    /* A path with a quote would change the command, so then the hint has placeholders. */
    bool fits = strlen(path) + strlen(store->url) < PG_DUMP_ARGUMENTS_MAX && strpbrk(path, "'\\") == NULL;
    if (fits && strchr(store->url, '?') == NULL) {
        error_hint(error, "pg_dump --format=custom --schema=%s --file='%s' '%s'", schema, path, store->url);
    } else {
        error_hint(error,
                   "pg_dump --format=custom --schema=%s --file=FILE URL (libpq's URL: without schema, pooler, listen)",
                   schema);
    }
    return WEIR_INVALID_ARGUMENT;
}

/* --- wake-ups --- */

/* The handle joins the listener at its first wake-up, since most handles never wait. */
static int postgres_wake_fd(struct store *store)
{
    struct postgres_store *self = postgres_of(store);
    if (self->subscription == NULL) {
        self->subscription = listener_join(self->address);
        subscription_set(self->subscription, self->wake_node_id, self->wake_schedules);
    }
    return subscription_fd(self->subscription);
}

/* Before the handle has joined the listener, its wanted notices are stored for the join. */
static void postgres_wake_for(struct store *store, int64_t node_id, bool schedules)
{
    INVARIANT(node_id >= 0);
    struct postgres_store *self = postgres_of(store);
    self->wake_node_id = node_id;
    self->wake_schedules = schedules;
    subscription_set(self->subscription, node_id, schedules);
}

static bool postgres_wake_drain(struct store *store, int64_t *ret_again_us)
{
    *ret_again_us = TIME_NEVER;
    return subscription_drain(postgres_of(store)->subscription);
}

const struct store_driver postgres_store_driver = {
    .scheme = "postgres",
    .other_schemes = {"postgresql"},
    .features = STORE_SHARED | STORE_WAKES | STORE_TELLS_OF_WORK,
    .open = postgres_open,
    .open_again = postgres_open_again,
    .close = postgres_close,
    .require_schema = postgres_require_schema,
    .plan = postgres_plan,
    .migrate = postgres_migrate,
    .check = postgres_check,
    .backup = postgres_backup,
    .time = postgres_time,
    .enqueue = postgres_enqueue,
    .role = postgres_role,
    .schedule = postgres_schedule,
    .publish_books = postgres_publish_books,
    .inbox = postgres_inbox,
    .read_definition = postgres_read_definition,
    .record = postgres_record,
    .node_start = postgres_node_start,
    .node_target = postgres_node_target,
    .node_handlers = postgres_node_handlers,
    .node_beat = postgres_node_beat,
    .mark_stuck = postgres_mark_stuck,
    .node_stop = postgres_node_stop,
    .desired_state = postgres_set_desired_state,
    .recover = postgres_recover,
    .take_requests = postgres_take_requests,
    .signal = postgres_signal,
    .bulk = postgres_bulk,
    .set_plan = postgres_set_plan,
    .set_workspace = postgres_set_workspace,
    .rename_workspace = postgres_rename_workspace,
    .delete_workspace = postgres_delete_workspace,
    .erase_workspace = postgres_erase_workspace,
    .set_workflow_state = postgres_set_workflow_state,
    .set_paused = postgres_set_paused,
    .publish = postgres_publish,
    .lock = postgres_lock,
    .lock_extend = postgres_lock_extend,
    .unlock = postgres_unlock,
    .list = postgres_list,
    .show = postgres_show,
    .why = postgres_why,
    .find_living = postgres_find_living,
    .find_in_workspaces = postgres_find_in_workspaces,
    .status = postgres_status,
    .write_logs = postgres_write_logs,
    .list_logs = postgres_list_logs,
    .read_log = postgres_read_log,
    .purge_logs = postgres_purge_logs,
    .write_progress = postgres_write_progress,
    .note_act = postgres_note_act,
    .archive = postgres_archive,
    .purge_audit = postgres_purge_audit,
    .token_create = postgres_token_create,
    .token_revoke = postgres_token_revoke,
    .tokens_read = postgres_tokens_read,
    .tokens_used = postgres_tokens_used,
    .hook_set = postgres_hook_set,
    .hook_pause = postgres_hook_pause,
    .hook_delete = postgres_hook_delete,
    .read_hook_events = postgres_read_hook_events,
    .settle_hook_events = postgres_settle_hook_events,
    .trim_hook_events = postgres_trim_hook_events,
    .advance_children = postgres_advance_children,
    .schedule_set = postgres_schedule_set,
    .schedule_pause = postgres_schedule_pause,
    .schedule_delete = postgres_schedule_delete,
    .schedule_trigger = postgres_schedule_trigger,
    .read_due_schedules = postgres_read_due_schedules,
    .advance_schedule = postgres_advance_schedule,
    .read_schedule_firings = postgres_read_schedule_firings,
    .settle_schedule_firings = postgres_settle_schedule_firings,
    .read_stream = postgres_read_stream,
    .purge_stream = postgres_purge_stream,
    .sample_history = postgres_sample_history,
    .write_history = postgres_write_history,
    .read_history = postgres_read_history,
    .wake_fd = postgres_wake_fd,
    .wake_for = postgres_wake_for,
    .wake_drain = postgres_wake_drain,
};
