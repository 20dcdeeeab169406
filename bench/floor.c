#include "floor.h"

#include <stdio.h>
#include <string.h>

#include "base/uuid.h"
#include "fixture.h"
#include "store/sqlite/connection.h"

enum { FLOOR_SET = 100 };

static void run(sqlite3 *database, const char *sql)
{
    if (sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK) {
        bench_fail(__FILE__, __LINE__, sqlite3_errmsg(database));
    }
}

static sqlite3_stmt *prepare(sqlite3 *database, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK) {
        bench_fail(__FILE__, __LINE__, sqlite3_errmsg(database));
    }
    return statement;
}

static void step(sqlite3_stmt *statement)
{
    BENCH_CHECK(sqlite3_step(statement) == SQLITE_DONE);
    BENCH_CHECK(sqlite3_reset(statement) == SQLITE_OK);
}

static sqlite3 *open_floor(struct bench *bench, const char *name)
{
    sqlite3 *database = NULL;
    char path[BENCH_PATH_MAX + 32];
    char settings[256];
    (void)snprintf(path, sizeof path, "%s/%s.db", bench->folder, name);
    (void)snprintf(settings, sizeof settings,
                   "PRAGMA journal_mode=wal; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=%d; PRAGMA cache_size=-%d",
                   (int)LOG_PAGES, (int)WRITER_CACHE_KIB);
    BENCH_CHECK(sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) ==
                SQLITE_OK);
    run(database, settings);
    run(database, "CREATE TABLE jobs (id TEXT NOT NULL PRIMARY KEY, state INTEGER NOT NULL, workspace INTEGER NOT NULL, "
                  "created_at INTEGER NOT NULL, started_at INTEGER) WITHOUT ROWID;"
                  "CREATE INDEX jobs_waiting ON jobs (created_at) WHERE state = 0;"
                  "CREATE INDEX jobs_taken ON jobs (created_at) WHERE state = 1;"
                  "CREATE TABLE history (id TEXT NOT NULL PRIMARY KEY, workspace INTEGER NOT NULL, "
                  "created_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER) WITHOUT ROWID;");
    return database;
}

static void fill(sqlite3 *database, size_t rows)
{
    sqlite3_stmt *insert = prepare(database, "INSERT INTO jobs VALUES (?1, 0, ?2, ?3, NULL)");
    for (size_t i = 0; i < rows; i++) {
        char id[UUID_TEXT_MAX];
        if (i % FIXTURE_BATCH == 0) {
            run(database, "BEGIN IMMEDIATE");
        }
        uuid_make((int64_t)(bench_now() * 1e6), id);
        (void)sqlite3_bind_text(insert, 1, id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(insert, 2, (int64_t)(i % 1000));
        (void)sqlite3_bind_int64(insert, 3, (int64_t)i);
        step(insert);
        if (i % FIXTURE_BATCH == FIXTURE_BATCH - 1 || i == rows - 1) {
            run(database, "COMMIT");
        }
    }
    (void)sqlite3_finalize(insert);
}

double floor_lifecycles(struct bench *bench, const char *name, size_t rows)
{
    sqlite3 *database = open_floor(bench, name);
    fill(database, rows);
    sqlite3_stmt *mark = prepare(database, "UPDATE jobs SET state = 1, started_at = ?1 WHERE id IN "
                                           "(SELECT id FROM jobs WHERE state = 0 ORDER BY created_at LIMIT ?2)");
    sqlite3_stmt *keep = prepare(database, "INSERT INTO history SELECT id, workspace, created_at, started_at, ?1 FROM jobs "
                                           "WHERE state = 1");
    sqlite3_stmt *drop = prepare(database, "DELETE FROM jobs WHERE state = 1");
    double began = bench_now();
    for (size_t done = 0; done < rows; done += FLOOR_SET) {
        run(database, "BEGIN IMMEDIATE");
        (void)sqlite3_bind_int64(mark, 1, (int64_t)(bench_now() * 1e6));
        (void)sqlite3_bind_int(mark, 2, FLOOR_SET);
        step(mark);
        run(database, "COMMIT");
        run(database, "BEGIN IMMEDIATE");
        (void)sqlite3_bind_int64(keep, 1, (int64_t)(bench_now() * 1e6));
        step(keep);
        step(drop);
        run(database, "COMMIT");
    }
    double seconds = bench_now() - began;
    sqlite3_stmt *count = prepare(database, "SELECT count(*) FROM history");
    BENCH_CHECK(sqlite3_step(count) == SQLITE_ROW && sqlite3_column_int64(count, 0) == (int64_t)rows);
    (void)sqlite3_finalize(count);
    (void)sqlite3_finalize(mark);
    (void)sqlite3_finalize(keep);
    (void)sqlite3_finalize(drop);
    BENCH_CHECK(sqlite3_close(database) == SQLITE_OK);
    return (double)rows / seconds;
}

double floor_enqueues(struct bench *bench, size_t rows)
{
    sqlite3 *database = open_floor(bench, "floor-enqueue");
    double began = bench_now();
    fill(database, rows);
    double seconds = bench_now() - began;
    BENCH_CHECK(sqlite3_close(database) == SQLITE_OK);
    return (double)rows / seconds;
}
