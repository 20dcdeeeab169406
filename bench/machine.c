#include "machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.h"

enum { FSYNC_SAMPLES = 200, PAGE_BYTES = 4096, PROBE_PAGES = 16 };

void sync_probe_open(struct sync_probe *probe, const struct bench *bench)
{
    char path[BENCH_PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/fsync", bench->folder);
    *probe = (struct sync_probe){.file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)};
    BENCH_CHECK(probe->file >= 0);
    (void)unlink(path);
    for (size_t i = 0; i < PROBE_PAGES; i++) {
        (void)sync_probe_once(probe);
    }
}

double sync_probe_once(struct sync_probe *probe)
{
    char page[PAGE_BYTES];
    memset(page, 'w', sizeof page);
    /* The same places again and again, as a log that was made long enough once. */
    off_t place = (off_t)(probe->count++ % PROBE_PAGES) * PAGE_BYTES;
    BENCH_CHECK(pwrite(probe->file, page, sizeof page, place) == (ssize_t)sizeof page);
    double began = bench_now();
    BENCH_CHECK(fdatasync(probe->file) == 0);
    return (bench_now() - began) * 1e6;
}

void sync_probe_close(struct sync_probe *probe)
{
    (void)close(probe->file);
}

double machine_fsync_us(const struct bench *bench)
{
    struct sync_probe probe;
    double samples[FSYNC_SAMPLES];
    sync_probe_open(&probe, bench);
    for (size_t i = 0; i < FSYNC_SAMPLES; i++) {
        samples[i] = sync_probe_once(&probe);
    }
    sync_probe_close(&probe);
    return bench_percentile(samples, FSYNC_SAMPLES, 0.5);
}

/* The value of the first line "name ... : value" of a file of /proc. */
static void read_field(const char *path, const char *name, char *to, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "r");
    text_copy(to, size, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, name, strlen(name)) == 0 && colon != NULL) {
            colon += 1 + strspn(colon + 1, " \t");
            colon[strcspn(colon, "\n")] = '\0';
            text_copy(to, size, colon);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Type of the mount with the longest name that begins the path. */
static void find_file_system(const char *path, char *to, size_t size)
{
    char line[1024];
    char whole[4096];
    size_t longest = 0;
    FILE *file = fopen("/proc/mounts", "r");
    text_copy(to, size, "unknown");
    if (realpath(path, whole) == NULL) {
        whole[0] = '\0';
    }
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *save = NULL;
        (void)strtok_r(line, " ", &save);
        const char *where = strtok_r(NULL, " ", &save);
        const char *type = strtok_r(NULL, " ", &save);
        size_t length = where == NULL ? 0 : strlen(where);
        if (type != NULL && length > longest && strncmp(whole, where, length) == 0) {
            longest = length;
            text_copy(to, size, type);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

json_t *machine_describe(const struct bench *bench)
{
    char cpu[128];
    char file_system[64];
    char kernel[300];
    struct utsname system;
    read_field("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    find_file_system(bench->folder, file_system, sizeof file_system);
    BENCH_CHECK(uname(&system) == 0);
    (void)snprintf(kernel, sizeof kernel, "%s %s", system.sysname, system.release);
    json_t *machine = json_pack(
        "{s:s, s:I, s:s, s:s, s:s, s:s, s:f}", "cpu", cpu, "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "kernel",
        kernel, "file_system", file_system, "sqlite", sqlite3_libversion(), "settings",
        "journal_mode=wal synchronous=full, every commit on disk before it is answered", "fsync_p50_us", bench->fsync_us);
    BENCH_CHECK(machine != NULL);
    return machine;
}
