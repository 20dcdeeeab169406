/* The SQLite driver for the conformance suite. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/driver_under_test.h"
#include "support/test.h"

static int64_t read_wall(void *context)
{
    return ((struct virtual_clock *)context)->wall_us;
}

static int64_t read_boot(void *context)
{
    return ((struct virtual_clock *)context)->boot_us;
}

static void start_clock(struct virtual_clock *time)
{
    time->wall_us = clock_wall(clock_system()); /* the views ask the machine's own clock which nodes live */
    time->boot_us = 1000000000;
    time->clock = (struct clock){.wall_us = read_wall, .boot_us = read_boot, .context = time};
}

void driver_pass(struct driver_under_test *driver, int64_t duration_us)
{
    driver->time.boot_us += duration_us;
    driver->time.wall_us += duration_us;
}

void driver_set_clock(struct driver_under_test *driver, int64_t by_us)
{
    driver->time.wall_us += by_us;
}

void driver_make(struct driver_under_test *driver)
{
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    memset(driver, 0, sizeof *driver);
    start_clock(&driver->time);
    (void)snprintf(driver->place, sizeof driver->place, "%s/weir-conformance-XXXXXX", parent);
    assert_non_null(mkdtemp(driver->place));
    (void)snprintf(driver->url, sizeof driver->url, "sqlite:%s/weir.db", driver->place);
}

void driver_make_migrated(struct driver_under_test *driver)
{
    driver_make(driver);
}

void driver_remove(struct driver_under_test *driver)
{
    static const char *const endings[] = {"", "-wal", "-shm", ".backup", ".backup-wal", ".backup-shm"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[300];
        (void)snprintf(path, sizeof path, "%s/weir.db%s", driver->place, endings[i]);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/weir-archive.db%s", driver->place, endings[i]);
        (void)unlink(path);
    }
    (void)rmdir(driver->place);
}

struct store *driver_open(struct driver_under_test *driver, struct event_bus *events)
{
    /* These tests are about the meaning of a call, and not about its waits for the disk and for other processes. */
    struct store_options options = {.url = driver->url,
                                    .create = true,
                                    .clock = &driver->time.clock,
                                    .events = events,
                                    .deadline_us = 60 * MICROSECONDS_PER_SECOND};
    struct store *store = NULL;
    struct weir_error error = {0};
    if (store_open(&options, &store, &error) != WEIR_OK) {
        fail_msg("cannot open %s: %s", driver->url, error.message);
    }
    return store;
}

static sqlite3 *open_database(struct driver_under_test *driver)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open_v2(driver->url + strlen("sqlite:"), &database, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    (void)sqlite3_busy_timeout(database, 10000);
    return database;
}

static json_t *column_value(sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
        return json_real(sqlite3_column_double(statement, column));
    case SQLITE_NULL:
        return json_null();
    default: {
        const char *bytes = sqlite3_column_blob(statement, column);
        int length = sqlite3_column_bytes(statement, column);
        return json_stringn_nocheck(length == 0 ? "" : bytes, (size_t)length);
    }
    }
}

json_t *driver_rows(struct driver_under_test *driver, const char *sql)
{
    sqlite3 *database = open_database(driver);
    sqlite3_stmt *statement = NULL;
    json_t *rows = json_array();
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    }
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        json_t *row = json_object();
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            (void)json_object_set_new_nocheck(row, sqlite3_column_name(statement, i), column_value(statement, i));
        }
        (void)json_array_append_new(rows, row);
    }
    if (code != SQLITE_DONE) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database);
    return rows;
}

int64_t driver_archived_steps(struct driver_under_test *driver)
{
    char path[300];
    sqlite3 *archive = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t count = 0;
    (void)snprintf(path, sizeof path, "%s/weir-archive.db", driver->place);
    if (sqlite3_open_v2(path, &archive, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
        assert_int_equal(sqlite3_prepare_v2(archive, "SELECT count(*) FROM workflow_node_executions", -1, &statement, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        count = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(archive);
    return count;
}

/* The number of its row, highest byte first. */
static void write_key(int64_t number, uint8_t *key)
{
    memset(key, 0, SCHEDULER_ID_BYTES);
    for (int i = 0; i < 8; i++) {
        key[i] = (uint8_t)((uint64_t)number >> (56 - 8 * i));
    }
}

static json_t *only_value(struct driver_under_test *driver, const char *column, const char *sql)
{
    json_t *rows = driver_rows(driver, sql);
    json_t *value = json_incref(json_object_get(json_array_get(rows, 0), column));
    json_decref(rows);
    return value;
}

void driver_item_key(struct driver_under_test *driver, const char *id, uint8_t *key)
{
    char sql[150];
    (void)snprintf(sql, sizeof sql, "SELECT number FROM workflow_execution_queue WHERE id = '%s'", id);
    json_t *number = only_value(driver, "number", sql);
    write_key(number == NULL ? INT64_MAX : json_integer_value(number), key);
    json_decref(number);
}

void driver_item_of_key(struct driver_under_test *driver, const uint8_t *key, char *id)
{
    char sql[150];
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) {
        number = number << 8 | key[i];
    }
    (void)snprintf(sql, sizeof sql, "SELECT id FROM workflow_execution_queue WHERE number = %lld", (long long)number);
    json_t *value = only_value(driver, "id", sql);
    assert_non_null(value);
    text_copy(id, UUID_TEXT_MAX, json_string_value(value));
    json_decref(value);
}

void driver_guard_caps(struct driver_under_test *driver)
{
    sqlite3 *database = open_database(driver);
    char *message = NULL;
    int code = sqlite3_exec(database,
                            "CREATE TRIGGER guard_caps AFTER UPDATE OF phase ON workflow_execution_queue"
                            " WHEN NEW.phase = 2 AND OLD.phase <> 2"
                            "  AND (SELECT count(*) FROM workflow_execution_queue q"
                            "   WHERE q.phase = 2 AND q.workspace_id = NEW.workspace_id)"
                            "  > (SELECT w.slots_max FROM workspaces w WHERE w.id = NEW.workspace_id)"
                            " BEGIN SELECT RAISE(ABORT, 'more slots taken than there are'); END",
                            NULL, NULL, &message);
    if (code != SQLITE_OK) {
        fail_msg("cannot guard the caps: %s", message);
    }
    (void)sqlite3_close(database);
}

void driver_refuse(struct driver_under_test *driver, const char *id)
{
    static const struct {
        const char *name;
        const char *event;
        const char *column;
    } places[] = {{"refuse_change", "UPDATE ON workflow_execution_queue", "id"},
                  {"refuse_step", "INSERT ON workflow_node_executions", "execution_id"},
                  {"refuse_end", "INSERT ON workflow_executions", "id"}};
    sqlite3 *database = open_database(driver);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char sql[300];
        if (id == NULL) {
            (void)snprintf(sql, sizeof sql, "DROP TRIGGER %s", places[i].name);
        } else {
            (void)snprintf(sql, sizeof sql,
                           "CREATE TRIGGER %s BEFORE %s WHEN NEW.%s = '%s' BEGIN SELECT RAISE(ABORT, 'not this one'); END",
                           places[i].name, places[i].event, places[i].column, id);
        }
        assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    (void)sqlite3_close(database);
}
