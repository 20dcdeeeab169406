/* A row of a SQLite store that another program has altered: "TABLE COLUMN TYPE VALUE", as bytes. Every verb that reads it
 * answers, with an error or without one; none ends the process. */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store_scene.h"
#include "waiting_scene.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NAMES_MOST = 64, NAME_BYTES = 64, HEAD_BYTES = 3, MEMORY_MAX = 16 * 1024 * 1024 };

struct names {
    char all[NAMES_MOST][NAME_BYTES];
    size_t count;
};

static void read_names(sqlite3 *database, const char *sql, struct names *names)
{
    sqlite3_stmt *statement = NULL;
    names->count = 0;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) == SQLITE_OK) {
        while (sqlite3_step(statement) == SQLITE_ROW && names->count < NAMES_MOST) {
            (void)snprintf(names->all[names->count++], NAME_BYTES, "%s", (const char *)sqlite3_column_text(statement, 0));
        }
    }
    (void)sqlite3_finalize(statement);
}

static void alter(sqlite3 *database, const uint8_t *data, size_t size)
{
    struct names tables;
    struct names columns;
    char sql[256];
    sqlite3_stmt *statement = NULL;
    int64_t number = 0;
    read_names(database, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name",
               &tables);
    if (tables.count == 0) {
        return;
    }
    const char *table = tables.all[data[0] % tables.count];
    (void)snprintf(sql, sizeof sql, "SELECT name FROM pragma_table_info('%s')", table);
    read_names(database, sql, &columns);
    if (columns.count == 0) {
        return;
    }
    (void)snprintf(sql, sizeof sql, "UPDATE OR IGNORE \"%s\" SET \"%s\" = ?1", table, columns.all[data[1] % columns.count]);
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK) {
        return;
    }
    memcpy(&number, data + HEAD_BYTES, size - HEAD_BYTES < sizeof number ? size - HEAD_BYTES : sizeof number);
    switch (data[2] % 4) {
    case 0:
        (void)sqlite3_bind_text(statement, 1, (const char *)data + HEAD_BYTES, (int)(size - HEAD_BYTES), SQLITE_STATIC);
        break;
    case 1:
        (void)sqlite3_bind_blob(statement, 1, data + HEAD_BYTES, (int)(size - HEAD_BYTES), SQLITE_STATIC);
        break;
    case 2:
        (void)sqlite3_bind_int64(statement, 1, number);
        break;
    default: /* NULL */
        break;
    }
    (void)sqlite3_step(statement);
    (void)sqlite3_finalize(statement);
}

static void read_all(struct store *store, const struct store_scene *scene)
{
    struct weir_error error = {.status = WEIR_OK};
    json_t *answer = NULL;
    struct arena arena;
    struct execution_filter filter = {.id = scene->ids[1]};
    struct bulk_result result = {0};
    struct node_beat beat = {.engine_reachable = true, .capacity = 10};
    struct claimed_item item = {.fence = 1};
    arena_init(&arena, MEMORY_MAX);
    for (int kind = 0; kind <= LIST_GROUPS; kind++) {
        struct list_options options = {.kind = (enum store_list_kind)kind, .limit = 100};
        options.filter.id = kind == LIST_EVENTS || kind == LIST_STEPS ? scene->ids[0] : NULL;
        answer = NULL;
        (void)!store_list(store, &options, &answer, &error);
        json_decref(answer);
    }
    answer = NULL;
    (void)!store_status(store, 10, &answer, &error);
    json_decref(answer);
    answer = NULL;
    (void)!store_check(store, &answer, &error);
    json_decref(answer);
    struct role_request role = {.act = ROLE_TAKE, .node_id = scene->node, .lease_us = 3000000};
    struct role_state state = {0};
    (void)!store_role(store, &role, &state, &error);
    struct schedule_call call = {.node_id = scene->node, .epoch = state.epoch, .load = true};
    struct schedule_answer schedule = {0};
    if (state.epoch > 0) {
        (void)!store_schedule(store, &call, &arena, &schedule, &error);
    }
    struct record record = {.kind = RECORD_COMPLETED, .fence = item.fence};
    struct record_summary summary = {0};
    (void)snprintf(record.id, sizeof record.id, "%s", scene->ids[0]);
    (void)!store_record(store, scene->node, &record, 1, &summary, &error);
    (void)!store_bulk(store, BULK_CANCEL, &filter, "", 1, &result, &error);
    (void)!store_node_beat(store, scene->node, &beat, &error);
    arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct store_scene scene;
    static struct waiting_scene waiting;
    static sqlite3 *whole; /* the store as it was made; each input begins with a copy of it */
    sqlite3 *database = NULL;
    if (whole == NULL) {
        store_scene_make(&scene);
        waiting_scene_make(&scene, &waiting);
        INVARIANT(sqlite3_open(":memory:", &whole) == SQLITE_OK && sqlite3_open(scene.path, &database) == SQLITE_OK);
        sqlite3_backup *copy = sqlite3_backup_init(whole, "main", database, "main");
        INVARIANT(copy != NULL && sqlite3_backup_step(copy, -1) == SQLITE_DONE);
        (void)sqlite3_backup_finish(copy);
        (void)sqlite3_close(database);
    }
    if (size < HEAD_BYTES || sqlite3_open(scene.path, &database) != SQLITE_OK) {
        return 0;
    }
    sqlite3_backup *copy = sqlite3_backup_init(database, "main", whole, "main");
    INVARIANT(copy != NULL && sqlite3_backup_step(copy, -1) == SQLITE_DONE);
    (void)sqlite3_backup_finish(copy);
    (void)sqlite3_exec(database, "PRAGMA ignore_check_constraints = 1", NULL, NULL, NULL);
    alter(database, data, size);
    (void)sqlite3_close(database);
    struct store *store = store_scene_open(&scene);
    if (store != NULL) {
        waiting_scene_read(store, &scene, &waiting);
        read_all(store, &scene);
        store_close(store);
    }
    return 0;
}
