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

static struct {
    char *bytes;
    size_t size;
} template;

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
static void read_template(const char *path)
{
    FILE *file = fopen(path, "rb");
    INVARIANT(file != NULL && fseek(file, 0, SEEK_END) == 0);
    template.size = (size_t)ftell(file);
    template.bytes = malloc(template.size);
    INVARIANT(template.bytes != NULL && template.size > 0);
    rewind(file);
    INVARIANT(fread(template.bytes, 1, template.size, file) == template.size);
    (void)fclose(file);
}

static void write_copy(const char *path)
{
    FILE *file = fopen(path, "wb");
    INVARIANT(file != NULL && fwrite(template.bytes, 1, template.size, file) == template.size);
    INVARIANT(fclose(file) == 0);
}

/* --- one run's --- */

void file_make(struct simulation *simulation)
{
    char url[128];
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    tune_sqlite();
    (void)snprintf(simulation->folder, sizeof simulation->folder, "%s/weir-simulation-XXXXXX", parent);
    INVARIANT(mkdtemp(simulation->folder) != NULL);
    (void)snprintf(simulation->path, sizeof simulation->path, "%s/weir.db", simulation->folder);
    (void)snprintf(url, sizeof url, "sqlite:%s", simulation->path);
    if (template.bytes != NULL) {
        write_copy(simulation->path);
    } else {
        migrate(simulation, url);
        observer_prepare(simulation->path);
        read_template(simulation->path);
    }
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
