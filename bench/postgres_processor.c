#include "postgres_processor.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

/* Fields of /proc/PID/stat. */
struct process_times {
    int parent;
    unsigned long own;   /* ticks */
    unsigned long ended; /* of children that have ended */
};

static struct process_times read_times(const char *pid)
{
    struct process_times times = {0};
    unsigned long ticks[4] = {0};
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return times; /* it has ended */
    }
    size_t length = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    const char *rest = strrchr(text, ')'); /* a name may hold anything */
    if (rest != NULL && sscanf(rest, ") %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %lu %lu", &times.parent,
                               &ticks[0], &ticks[1], &ticks[2], &ticks[3]) == 5) {
        times.own = ticks[0] + ticks[1];
        times.ended = ticks[2] + ticks[3];
    }
    return times;
}

/* Ticks of processor of a server's processes, those that have ended and those that have not. */
static unsigned long count_ticks(const struct postgres_server *server, const char *pid,
                                 struct process_times *ret_postmaster)
{
    *ret_postmaster = read_times(pid);
    unsigned long ticks = ret_postmaster->own + ret_postmaster->ended;
    DIR *folder = opendir("/proc");
    BENCH_CHECK(folder != NULL && ticks > 0);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct process_times times = entry->d_name[0] > '9' ? (struct process_times){0} : read_times(entry->d_name);
        ticks += times.parent == (int)server->pid ? times.own : 0;
    }
    (void)closedir(folder);
    return ticks;
}

/* Counted again when a process ended meanwhile, since that one may be in neither count or in both. */
double postgres_processor_us(const struct postgres_server *server)
{
    char pid[32];
    struct process_times before;
    unsigned long ticks;
    double end = bench_now() + 10;
    (void)snprintf(pid, sizeof pid, "%d", (int)server->pid);
    do {
        BENCH_CHECK(bench_now() < end);
        ticks = count_ticks(server, pid, &before);
    } while (read_times(pid).ended != before.ended);
    return (double)ticks * 1e6 / (double)sysconf(_SC_CLK_TCK);
}
