/* `weir serve` as it is installed, as a process to measure: its memory, and the time until it is ready. */
#ifndef WEIR_BENCH_DAEMON_H
#define WEIR_BENCH_DAEMON_H

#include <limits.h>
#include <sys/types.h>

#include "bench.h"

enum { DAEMON_PATH_MAX = PATH_MAX + 128 };

/* The binary of the same build: bench/weir_bench and weir lie in one build folder. */
void daemon_find_binary(char *to, size_t size);
/* Runs a program with its output in a file; the path of the program is searched in PATH. -1: it is not installed. */
pid_t daemon_spawn(const char *const *words, const char *output);
/* Waits for the end of a process; whether it ended with 0. */
bool daemon_await_exit(pid_t child);

struct daemon {
    pid_t child;
    char output[DAEMON_PATH_MAX];
    struct figures *figures; /* where the running process is on record */
    double ready_ms;         /* from the command to its first line, which reports that the node has started */
};
/* A group that fails leaves no daemon behind: main() ends the last one. */
void daemon_serve(struct bench *bench, const char *binary, const char *url, struct daemon *daemon);
/* The binary of the build, which listens on 127.0.0.1:PORT. */
void daemon_serve_http(struct bench *bench, const char *url, int port, struct daemon *daemon);
/* Gracefully. */
void daemon_stop(struct daemon *daemon);
/* A field of /proc/PID/status in MiB, for example "VmRSS:". */
double daemon_status_mib(const struct daemon *daemon, const char *field);

#endif
