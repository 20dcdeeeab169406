/* The file of a run's store, and SQLite as one process of one thread needs it.
 *
 * A run needs an empty store, and hundreds of runs need the same one: it is made once, by the migrations as ever, and then
 * copied. What a run does to its copy is real: the same driver, the same log, the same syncs. */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "simulation/simulation.h"

/* One of each season, because the store's clock begins with the migration. */
static struct template
{
    char *bytes;
    size_t size;
}
templates[SEASONS];

/* --- SQLite --- */

/* A lock on the file excludes other processes, and there are none: between the connections of one process SQLite keeps its
 * own books, and asks the system for locks beside that. */
static int grant_locks(int fd, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (command == F_GETLK) {
        ((struct flock *)argument)->l_type = F_UNLCK;
        return 0;
    }
    return command == F_SETLK ? 0 : fcntl(fd, command, argument);
}

static void tune_sqlite(void)
{
    static bool is_done;
    if (is_done) {
        return;
    }
    is_done = true;
    INVARIANT(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) == SQLITE_OK);
    INVARIANT(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK);
    sqlite3_vfs *system = sqlite3_vfs_find(NULL);
    INVARIANT(system != NULL && system->iVersion >= 3);
    INVARIANT(system->xSetSystemCall(system, "fcntl", (sqlite3_syscall_ptr)grant_locks) == SQLITE_OK);
}

/* --- what the file has beside the schema --- */

#define QUEUE_VALUES(row)                                                                                                  \
    row ".id, " row ".status, " row ".workspace_id, " row ".lane_id, " row ".node_id, " row ".fence, " row ".phase, " row  \
        ".rank, " row ".due_at, " row ".run_at, " row ".priority, " row ".starts_refused, " row ".deferrals, " row         \
        ".handovers, " row ".cancel_at, " row ".waiting_for, CASE WHEN " row ".retry_of IS NULL THEN " row                 \
        ".idempotency_key ELSE 'retry of ' || " row ".retry_of END"
#define HISTORY_COLUMNS "what, id, status, workspace_id, fence, node_id, due_at, starts_refused, handovers, extra"
#define HISTORY_VALUES(row)                                                                                                \
    row ".id, " row ".status, " row ".workspace_id, " row ".fence, " row ".node_id, " row ".finished_at, " row             \
        ".starts_refused, " row ".handovers, " row ".error_code"

#define FIRING_TRIGGER(number, what, act, row)                                                                             \
    "CREATE TRIGGER simulation_" number " AFTER " act " ON schedule_firings BEGIN INSERT INTO simulation_changes"          \
    " (what, id, status, workspace_id, rank, due_at, run_at, phase) VALUES ('firing" what "', " row ".planned_id, " row    \
    ".execution_id, " row ".workspace_id, " row ".schedule_id, " row ".due_at, " row ".created_at, " row                   \
    ".is_triggered); END;"
#define SCHEDULE_TRIGGER(number, act)                                                                                      \
    "CREATE TRIGGER simulation_" number " AFTER " act " ON schedules BEGIN INSERT INTO simulation_changes"                 \
    " (what, id, rank, due_at, phase, fence, node_id, lane_id, priority) VALUES ('schedule', NEW.name, NEW.id,"            \
    " NEW.due_at, NEW.paused, NEW.fired, NEW.skipped, NEW.dropped, NEW.refused); END;"

/* The machine of a step `state`: in its row, or in that of the ended execution. */
#define MACHINE_COLUMNS "what, id, status, rank, fence, priority, due_at, waiting_for, extra"
/* A trigger may not call functions of JSON. */
#define MACHINE_TEXT(machine, output)                                                                                      \
    "'{\"machine\":' || coalesce(CAST(" machine " AS TEXT), 'null') || ',\"output\":' || coalesce(CAST(" output            \
    " AS TEXT), 'null') || '}'"
#define MACHINE_TRIGGER(number, act)                                                                                       \
    "CREATE TRIGGER simulation_" number " AFTER " act " ON workflow_node_executions WHEN NEW.step = 'state' BEGIN"         \
    " INSERT INTO simulation_changes (" MACHINE_COLUMNS ") VALUES ('machine', NEW.execution_id, NEW.status, NEW.attempt,"  \
    " NEW.fence, NEW.failures, NEW.due_at, NEW.signal, " MACHINE_TEXT("NEW.variables", "NEW.output") "); END;"
static const char states_schema[] = MACHINE_TRIGGER("20", "INSERT") MACHINE_TRIGGER(
    "21",
    "UPDATE") "CREATE TRIGGER simulation_22 AFTER INSERT ON workflow_executions WHEN NEW.step = 'state' BEGIN INSERT INTO"
              " simulation_changes (" MACHINE_COLUMNS
              ") VALUES ('machine', NEW.id, NEW.step_status, NEW.step_attempt, NEW.fence,"
              " NEW.step_failures, NULL, NULL, " MACHINE_TEXT(
                  "NEW.step_variables",
                  "NEW.step_output") "); END;"
                                     "CREATE TRIGGER simulation_23 AFTER INSERT ON workflow_actions BEGIN INSERT INTO "
                                     "simulation_changes"
                                     " (what, id, status, rank, fence, node_id, extra) VALUES ('action+', "
                                     "NEW.execution_id, NEW.outcome, NEW.action,"
                                     " NEW.fence, NEW.node_id, '{\"state\":\"' || NEW.state || '\",\"next\":\"' || "
                                     "coalesce(NEW.next_state, '') ||"
                                     " '\",\"actor\":\"' || coalesce(NEW.actor, '') || '\"}'); END;"
                                     "CREATE TRIGGER simulation_24 AFTER UPDATE ON workflow_actions BEGIN INSERT INTO "
                                     "simulation_changes"
                                     " (what, id, rank) VALUES ('action=', NEW.execution_id, NEW.action); END;"
                                     "CREATE TRIGGER simulation_25 AFTER DELETE ON workflow_actions BEGIN INSERT INTO "
                                     "simulation_changes"
                                     " (what, id, rank) VALUES ('action-', OLD.execution_id, OLD.action); END;"
                                     "CREATE TRIGGER simulation_26 AFTER INSERT ON signals BEGIN INSERT INTO "
                                     "simulation_changes"
                                     " (what, id, status, rank, extra) VALUES ('signal+', NEW.execution_id, NEW.name, "
                                     "NEW.seq, NEW.data); END;"
                                     "CREATE TRIGGER simulation_27 AFTER UPDATE ON signals BEGIN INSERT INTO "
                                     "simulation_changes"
                                     " (what, id, status, rank, phase, extra) VALUES ('signal=', NEW.execution_id, "
                                     "NEW.name, NEW.seq,"
                                     " OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL, NEW.data); END;";

/* Steps with children, and the waits of such steps: in fleets that have some. */
#define FAMILY_TRIGGER(number, what, act, row)                                                                             \
    "CREATE TRIGGER simulation_" number " AFTER " act " ON child_steps BEGIN INSERT INTO simulation_changes"               \
    " (what, id, status, fence, phase, rank, due_at, run_at, node_id, deferrals, priority, lane_id, starts_refused,"       \
    " handovers, waiting_for) VALUES ('family" what "', " row ".parent_id, " row ".step, " row ".count, " row              \
    ".is_settled, " row ".started, " row ".ended, " row ".completed, " row ".cancelled_to, " row ".depth, " row            \
    ".leaves, " row ".wanted, " row ".max_parallel, " row ".waits_for_all, " row ".problem); END;"
#define CHILD_TRIGGER(number, what, act, row)                                                                              \
    "CREATE TRIGGER simulation_" number " AFTER " act " ON children BEGIN INSERT INTO simulation_changes"                  \
    " (what, id, status, rank, phase, waiting_for, extra) VALUES ('child" what "', " row ".parent_id, " row ".step, " row  \
    ".position, " row ".is_adopted, " row ".status, " row ".child_id || coalesce(' ' || " row ".error_code, '')); END;"
#define WAIT_TRIGGER(number, act)                                                                                          \
    "CREATE TRIGGER simulation_" number " AFTER " act " ON workflow_node_executions WHEN NEW.step LIKE 'step-%' AND"       \
    " (NEW.signal LIKE 'children:%' OR EXISTS (SELECT 1 FROM child_steps s WHERE s.parent_id = NEW.execution_id AND"       \
    " s.step = NEW.step)) BEGIN INSERT INTO simulation_changes (what, id, status, waiting_for, due_at, extra)"             \
    " VALUES ('wait', NEW.execution_id, NEW.step, NEW.status, NEW.due_at, NEW.error_code); END;"
static const char children_schema[] = FAMILY_TRIGGER("30", "+", "INSERT", "NEW") FAMILY_TRIGGER("31", "=", "UPDATE", "NEW")
    FAMILY_TRIGGER("32", "-", "DELETE", "OLD") CHILD_TRIGGER("33", "+", "INSERT", "NEW") CHILD_TRIGGER(
        "34", "=", "UPDATE", "NEW") CHILD_TRIGGER("35", "-", "DELETE", "OLD") WAIT_TRIGGER("36", "INSERT")
        WAIT_TRIGGER("37", "UPDATE") "CREATE TRIGGER simulation_38 AFTER INSERT ON workflow_executions WHEN NEW.step LIKE"
                                     " 'step-%' AND EXISTS (SELECT 1 FROM child_steps s WHERE s.parent_id = NEW.id AND"
                                     " s.step = NEW.step) BEGIN INSERT INTO simulation_changes (what, id, status,"
                                     " waiting_for, extra) VALUES ('wait', NEW.id, NEW.step, NEW.step_status,"
                                     " NEW.step_error_code); END;";

/* Nodes, in fleets with different sets of handlers. */
#define NODE_TRIGGER(number, act)                                                                                          \
    "CREATE TRIGGER simulation_" number " AFTER " act " ON nodes BEGIN INSERT INTO simulation_changes (what, rank, phase," \
    " extra) VALUES ('node', NEW.id, NEW.dead_at IS NOT NULL OR NEW.stopped_at IS NOT NULL, NEW.handlers); END;"
static const char nodes_schema[] =
    NODE_TRIGGER("40", "INSERT") NODE_TRIGGER("41", "UPDATE OF handlers, dead_at, stopped_at");

static const char schema[] =
    "CREATE TABLE simulation_changes (seq INTEGER PRIMARY KEY, what TEXT NOT NULL, id TEXT, status TEXT, workspace_id "
    "INTEGER,"
    " lane_id INTEGER, node_id INTEGER, fence INTEGER, phase INTEGER, rank INTEGER, due_at INTEGER, run_at INTEGER,"
    " priority INTEGER, starts_refused INTEGER, deferrals INTEGER, handovers INTEGER, cancel_at INTEGER, waiting_for TEXT,"
    " extra TEXT);"
    "CREATE TRIGGER simulation_1 AFTER INSERT ON workflow_execution_queue BEGIN INSERT INTO simulation_changes "
    "(" CHANGE_COLUMNS ") VALUES ('queue+', " QUEUE_VALUES(
        "NEW") "); END;"
               "CREATE TRIGGER simulation_2 AFTER UPDATE ON workflow_execution_queue BEGIN INSERT INTO simulation_changes "
               "(" CHANGE_COLUMNS ") VALUES ('queue=', " QUEUE_VALUES(
                   "NEW") "); END;"
                          "CREATE TRIGGER simulation_3 AFTER DELETE ON workflow_execution_queue BEGIN INSERT INTO "
                          "simulation_changes (" CHANGE_COLUMNS ") VALUES ('queue-', " QUEUE_VALUES(
                              "OLD") "); END;"
                                     "CREATE TRIGGER simulation_4 AFTER INSERT ON workflow_executions BEGIN INSERT INTO "
                                     "simulation_changes (" HISTORY_COLUMNS ") VALUES ('history+', " HISTORY_VALUES(
                                         "NEW") "); END;"
                                                "CREATE TRIGGER simulation_5 AFTER UPDATE ON workflow_executions BEGIN "
                                                "INSERT INTO simulation_changes (" HISTORY_COLUMNS
                                                ") VALUES ('history=', " HISTORY_VALUES(
                                                    "NEW") "); END;"
                                                           "CREATE TRIGGER simulation_6 AFTER DELETE ON "
                                                           "workflow_executions BEGIN INSERT INTO simulation_changes "
                                                           "(" HISTORY_COLUMNS ") VALUES ('history-', " HISTORY_VALUES(
                                                               "OLD") "); END;"
                                                                      "CREATE TRIGGER simulation_7 AFTER UPDATE OF "
                                                                      "slots_max, paused, weight ON workspaces"
                                                                      " BEGIN INSERT INTO simulation_changes (what, id, "
                                                                      "workspace_id, rank, phase, priority)"
                                                                      " VALUES ('workspace', NEW.name, NEW.id, "
                                                                      "NEW.slots_max, NEW.paused, NEW.weight); END;"
                                                                      "CREATE TRIGGER simulation_9 AFTER UPDATE OF paused "
                                                                      "ON executor_groups BEGIN INSERT INTO "
                                                                      "simulation_changes (what, id, phase)"
                                                                      " VALUES ('group', NEW.name, NEW.paused); END;"
                                                                      "CREATE TRIGGER simulation_10 AFTER UPDATE OF "
                                                                      "queue_paused ON store_state BEGIN INSERT INTO "
                                                                      "simulation_changes (what, phase)"
                                                                      " VALUES ('paused', NEW.queue_paused); END;"
                                                                      "CREATE TRIGGER simulation_11 AFTER INSERT ON "
                                                                      "workflow_execution_events BEGIN INSERT INTO "
                                                                      "simulation_changes"
                                                                      " (what, id, node_id, fence, extra) VALUES "
                                                                      "('event+', NEW.execution_id, NEW.node_id, "
                                                                      "NEW.fence, NEW.event); END;"
                                                                      "CREATE TRIGGER simulation_12 AFTER UPDATE ON "
                                                                      "workflow_execution_events BEGIN INSERT INTO "
                                                                      "simulation_changes (what, id, extra)"
                                                                      " VALUES ('event=', NEW.execution_id, NEW.event); "
                                                                      "END;"
                                                                      "CREATE TRIGGER simulation_13 AFTER DELETE ON "
                                                                      "workflow_execution_events BEGIN INSERT INTO "
                                                                      "simulation_changes (what, id, extra)"
                                                                      " VALUES ('event-', OLD.execution_id, OLD.event); "
                                                                      "END;"
                                                                      "CREATE TRIGGER simulation_14 AFTER UPDATE ON "
                                                                      "workflow_node_executions WHEN OLD.finished_at IS "
                                                                      "NOT NULL"
                                                                      " BEGIN INSERT INTO simulation_changes (what, id, "
                                                                      "extra) VALUES ('step=', NEW.execution_id, "
                                                                      "NEW.step); END;" FIRING_TRIGGER("15", "+", "INSERT",
                                                                                                       "NEW")
                                                                          FIRING_TRIGGER("16", "=", "UPDATE", "NEW")
                                                                              FIRING_TRIGGER("17", "-", "DELETE", "OLD")
                                                                                  SCHEDULE_TRIGGER("18", "INSERT")
                                                                                      SCHEDULE_TRIGGER("19", "UPDATE");

/* The end of a wait that is on record in the row alone. */
static const char wakes_schema[] =
    "CREATE TRIGGER simulation_28 AFTER UPDATE ON workflow_execution_queue WHEN NEW.parked_fence IS NOT NULL"
    " AND OLD.parked_fence IS NULL BEGIN INSERT INTO simulation_changes (what, id, node_id, fence, extra)"
    " VALUES ('event+', NEW.id, 0, NEW.parked_fence, 'wake'); END;";

void file_execute(const char *path, const char *sql)
{
    sqlite3 *writer;
    char *message = NULL;
    INVARIANT(sqlite3_open(path, &writer) == SQLITE_OK);
    if (sqlite3_exec(writer, sql, NULL, NULL, &message) != SQLITE_OK) {
        (void)fprintf(stderr, "simulation: %s\n", message);
        abort();
    }
    (void)sqlite3_close(writer);
}

void file_observe_children(const struct simulation *simulation)
{
    file_execute(simulation->path, children_schema);
}

void file_observe_nodes(const struct simulation *simulation)
{
    file_execute(simulation->path, nodes_schema);
}

/* --- the template --- */

static void migrate(struct simulation *simulation, const char *url)
{
    struct weir_error error;
    struct store *store = NULL;
    struct store_options options = {.url = url, .create = true, .clock = &simulation->clock, .uuids = &simulation->uuids};
    if (store_open(&options, &store, &error) != WEIR_OK || store_migrate(store, NULL, &error) != WEIR_OK) {
        (void)fprintf(stderr, "simulation: %s\n", error.message);
        abort();
    }
    store_close(store);
}

/* Of a file that nobody has open: then it is all there is. */
static void read_template(struct template *template, const char *path)
{
    FILE *file = fopen(path, "rb");
    INVARIANT(file != NULL && fseek(file, 0, SEEK_END) == 0);
    template->size = (size_t)ftell(file);
    template->bytes = malloc(template->size);
    INVARIANT(template->bytes != NULL && template->size > 0);
    rewind(file);
    INVARIANT(fread(template->bytes, 1, template->size, file) == template->size);
    (void)fclose(file);
}

static void write_copy(const struct template *template, const char *path)
{
    FILE *file = fopen(path, "wb");
    INVARIANT(file != NULL && fwrite(template->bytes, 1, template->size, file) == template->size);
    INVARIANT(fclose(file) == 0);
}

/* --- one run's --- */

void file_make(struct simulation *simulation)
{
    char url[128];
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    struct template *template = &templates[simulation->season];
    tune_sqlite();
    (void)snprintf(simulation->folder, sizeof simulation->folder, "%s/weir-simulation-XXXXXX", parent);
    INVARIANT(mkdtemp(simulation->folder) != NULL);
    (void)snprintf(simulation->path, sizeof simulation->path, "%s/weir.db", simulation->folder);
    (void)snprintf(url, sizeof url, "sqlite:%s", simulation->path);
    if (template->bytes != NULL) {
        write_copy(template, simulation->path);
    } else {
        migrate(simulation, url);
        file_execute(simulation->path, schema);
        file_execute(simulation->path, states_schema);
        file_execute(simulation->path, wakes_schema);
        read_template(template, simulation->path);
    }
    /* SQL of the store draws the ids of firings. */
    INVARIANT(sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(simulation->options.seed & 0x7fffffff), NULL) ==
              SQLITE_OK);
}

void file_remove(const struct simulation *simulation)
{
    DIR *folder = opendir(simulation->folder);
    char path[512];
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        (void)snprintf(path, sizeof path, "%s/%s", simulation->folder, entry->d_name);
        (void)unlink(path);
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    (void)rmdir(simulation->folder);
}
