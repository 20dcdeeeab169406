/* A node of a program with handlers, whose steps record their runs: the campaign of the scheduler compares the records with
 * the store.
 *
 * usage: node_program STORE NAME RECORDS LOCKS MILLISECONDS
 *
 * The handler `record` appends lines "KIND ID STEP ATTEMPT FENCE BOOT_US PID" to RECORDS, each with one write(): `begin`
 * and, MILLISECONDS later, `end`. Meanwhile it holds a lock on a range of LOCKS that belongs to the execution and its step;
 * when another run has that lock the first line is `overlap`. The kernel releases the locks of a process that dies.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <weir/weir.h>

enum { RUNNING_MAX = 64, THREADS = 16, LEASE_S = 20, SECOND_US = 1000000 };

struct recorder {
    int records;
    const char *locks;
    long milliseconds;
};

static int64_t boot_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static bool record(const struct recorder *recorder, const struct weir_call *call, const char *kind)
{
    char line[256];
    int length =
        snprintf(line, sizeof line, "%s %s %s %d %" PRId64 " %" PRId64 " %ld\n", kind, weir_call_execution_id(call),
                 weir_call_step(call), weir_call_attempt(call), weir_call_fence(call), boot_us(), (long)getpid());
    return write(recorder->records, line, (size_t)length) == length;
}

/* A place in the file for each execution and step (FNV-1a, without the sign and the last value of an offset). */
static off_t lock_place(const struct weir_call *call)
{
    uint64_t hash = 0xcbf29ce484222325U;
    const char *const texts[] = {weir_call_execution_id(call), weir_call_step(call)};
    for (size_t i = 0; i < 2; i++) {
        for (const char *at = texts[i]; *at != '\0'; at++) {
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3U;
        }
    }
    return (off_t)(hash >> 2);
}

static void record_run(struct weir_call *call, void *context)
{
    const struct recorder *recorder = context;
    struct timespec nap = {.tv_sec = recorder->milliseconds / 1000, .tv_nsec = recorder->milliseconds % 1000 * 1000000};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = lock_place(call), .l_len = 1};
    int fd = open(recorder->locks, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* of its own: the lock belongs to it */
    bool is_alone = fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0;
    bool is_recorded = record(recorder, call, is_alone ? "begin" : "overlap");
    (void)nanosleep(&nap, NULL);
    if (is_recorded && record(recorder, call, "end")) {
        weir_done(call, NULL);
    } else {
        weir_fail(call, "not_recorded", "the run could not be recorded");
    }
    (void)close(fd);
}

static int fail(const struct weir_error *error)
{
    (void)fprintf(stderr, "node_program: %s\n", error->message);
    return 1;
}

int main(int argc, char **argv)
{
    struct weir_error error;
    struct weir *weir = NULL;
    struct weir_node *node = NULL;
    struct recorder recorder = {.records = -1};
    if (argc != 6) {
        (void)fprintf(stderr, "usage: node_program STORE NAME RECORDS LOCKS MILLISECONDS\n");
        return 2;
    }
    recorder = (struct recorder){.records = open(argv[3], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600),
                                 .locks = argv[4],
                                 .milliseconds = strtol(argv[5], NULL, 10)};
    if (recorder.records < 0) {
        perror("node_program: the records");
        return 1;
    }
    struct weir_handler handler = {.name = "record", .function = record_run, .context = &recorder};
    struct weir_node_options options = {.name = argv[2],
                                        .handlers = &handler,
                                        .handler_count = 1,
                                        .handler_threads = THREADS,
                                        .max_running = RUNNING_MAX,
                                        .lease_us = (int64_t)LEASE_S * SECOND_US};
    if (weir_open(argv[1], NULL, &weir, &error) != WEIR_OK || weir_node_open(weir, &options, &node, &error) != WEIR_OK ||
        weir_node_start(node, &error) != WEIR_OK) {
        return fail(&error);
    }
    (void)puts("started");
    (void)fflush(stdout);
    (void)getchar(); /* runs until its input ends */
    if (weir_node_stop(node, -1, NULL, &error) != WEIR_OK) {
        return fail(&error);
    }
    weir_node_close(node);
    weir_close(weir);
    return 0;
}
