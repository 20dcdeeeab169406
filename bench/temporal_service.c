/* Starts through weir against a plain loop of the same calls, on one real Temporal server (tools/install_temporal.sh) in the
 * same run. The server is the limit of both; what weir does beside (queue, caps, fairness, records, following) must not
 * show.
 *
 * The server gets slower the more it holds and the machine's speed drifts, so the two take turns: loop, weir, weir, loop. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/temporal/messages.h"
#include "engine/temporal/temporal.h"
#include "support/postgres_server.h"
#include "temporal_scene.h"

enum { STARTS = 400, STARTS_QUICK = 40, TURNS = 4, WIDTH = 64, READY_SECONDS_MAX = 60, RUN_SECONDS_MAX = 300 };
#define CALL_TIMEOUT_US (30 * MICROSECONDS_PER_SECOND)

static struct weir_error fault;

/* --- the server --- */

/* Where the installer puts it; false when it has not. */
static bool find_server(char *to, size_t size)
{
    char folder[BENCH_PATH_MAX] = "";
    FILE *installer = popen("sh '" WEIR_INSTALL_TEMPORAL "' where", "r");
    BENCH_CHECK(installer != NULL);
    BENCH_CHECK(fgets(folder, sizeof folder, installer) != NULL);
    (void)pclose(installer);
    folder[strcspn(folder, "\n")] = '\0';
    (void)snprintf(to, size, "%s/complete", folder);
    bool is_there = access(to, R_OK) == 0;
    (void)snprintf(to, size, "%s/bin/temporal", folder);
    return is_there;
}

static pid_t start_server(const struct bench *bench, const char *binary, int port)
{
    char port_text[16];
    char file[BENCH_PATH_MAX + 16];
    (void)snprintf(port_text, sizeof port_text, "%d", port);
    (void)snprintf(file, sizeof file, "%s/temporal.db", bench->folder);
    fflush(NULL);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        BENCH_CHECK(null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2);
        (void)setenv("HOME", bench->folder, 1);
        (void)execl(binary, binary, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port_text,
                    "--log-level", "error", "--db-filename", file, "--sqlite-pragma", "journal_mode=WAL",
                    "--sqlite-pragma", "synchronous=NORMAL", (char *)NULL);
        _exit(127);
    }
    return child;
}

/* --- the plain loop --- */

struct loop {
    struct grpc_client *client;
    size_t next; /* number of the next start, never used twice */
    size_t left;
    size_t under_way;
    size_t fine;
};

static void start_one(struct loop *loop);

static void count(void *context, const struct grpc_result *result)
{
    struct loop *loop = context;
    loop->under_way--;
    loop->fine += result->outcome == GRPC_STATUS && result->code == GRPC_OK;
    if (loop->left > 0) {
        start_one(loop);
    }
}

static void start_one(struct loop *loop)
{
    char id[UUID_TEXT_MAX];
    (void)snprintf(id, sizeof id, "019aa000-0000-7000-8000-%012zu", loop->next++);
    struct start_message message = {.namespace_name = TEMPORAL_NAMESPACE_DEFAULT,
                                    .execution_id = id,
                                    .workspace = fixture_workspace(loop->next % TEMPORAL_WORKSPACES),
                                    .identity = "loop",
                                    .workflow_type = TEMPORAL_WORKFLOW,
                                    .task_queue = "q",
                                    .input = "{}",
                                    .input_length = 2,
                                    .encoding = TEMPORAL_ENCODING_DEFAULT};
    struct bytes bytes = message_start(&message);
    BENCH_CHECK(bytes.data != NULL);
    struct grpc_request request = {.path = "/temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution",
                                   .message = bytes.data,
                                   .message_length = bytes.length,
                                   .timeout_us = CALL_TIMEOUT_US,
                                   .done = count,
                                   .context = loop};
    BENCH_OK(grpc_client_call(loop->client, &request, NULL, &fault), &fault);
    free(bytes.data);
    loop->left--;
    loop->under_way++;
}

/* True when all were started. */
static bool run_loop(struct loop *loop, size_t starts)
{
    double end = bench_now() + RUN_SECONDS_MAX;
    loop->left = starts;
    loop->fine = 0;
    while (loop->left > 0 && loop->under_way < WIDTH) {
        start_one(loop);
    }
    while (loop->under_way > 0) {
        int64_t due_us = grpc_client_step(loop->client);
        int64_t wait_us = due_us == TIME_NEVER ? MICROSECONDS_PER_SECOND : due_us - clock_boot(clock_system());
        struct pollfd polled = {.fd = grpc_client_fd(loop->client), .events = POLLIN};
        if (loop->under_way > 0 && wait_us > 0) {
            (void)poll(&polled, 1, wait_us < MICROSECONDS_PER_SECOND ? (int)(wait_us / MICROSECONDS_PER_MS) + 1 : 1000);
        }
        BENCH_CHECK(bench_now() < end);
    }
    return loop->fine == starts;
}

static void await_server(struct loop *loop)
{
    double end = bench_now() + READY_SECONDS_MAX;
    while (!run_loop(loop, 1)) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 100000000};
        BENCH_CHECK(bench_now() < end);
        (void)nanosleep(&pause, NULL);
    }
}

/* --- the turns --- */

static double time_loop(struct loop *loop, size_t starts)
{
    double began = bench_now();
    BENCH_CHECK(run_loop(loop, starts));
    return bench_now() - began;
}

/* From the enqueue to the last record. */
static double time_weir(struct temporal_scene *scene, struct store *store, size_t starts)
{
    size_t before = atomic_load(&scene->dispatched);
    double began = bench_now();
    fixture_fill_with(store, TEMPORAL_WORKFLOW, 0, TEMPORAL_WORKSPACES, starts);
    temporal_scene_await(scene, before + starts);
    return bench_now() - began;
}

static void take_turns(struct bench *bench, struct loop *loop, const char *address, size_t starts)
{
    struct temporal_scene scene;
    struct engine *engine = NULL;
    struct store *store = fixture_store(bench, "service");
    temporal_scene_prepare(store);
    struct temporal_options options = {.address = address, .starts_max = WIDTH};
    BENCH_OK(temporal_open(&options, &engine, &fault), &fault);
    temporal_scene_start(&scene, store, engine);
    double loop_seconds = 0;
    double weir_seconds = 0;
    (void)time_loop(loop, starts / 2); /* both are warm before anything counts */
    (void)time_weir(&scene, store, starts / 2);
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 2 == 0) {
            loop_seconds += time_loop(loop, starts);
            weir_seconds += time_weir(&scene, store, starts);
        } else {
            weir_seconds += time_weir(&scene, store, starts);
            loop_seconds += time_loop(loop, starts);
        }
    }
    double all = (double)(TURNS * starts);
    bench_report(bench, "temporal service: starts through weir", all / weir_seconds, "starts/s", all / loop_seconds,
                 RATIO_AT_LEAST, 0.95);
    temporal_scene_stop(&scene);
    fixture_check(store);
    store_close(store);
}

void bench_temporal_service(struct bench *bench)
{
    char binary[BENCH_PATH_MAX + 32];
    char address[32];
    if (!find_server(binary, sizeof binary)) {
        printf("temporal_service: left out: there is no Temporal server here (get it with: tools/install_temporal.sh)\n");
        return;
    }
    int port = postgres_server_free_port();
    pid_t server = start_server(bench, binary, port);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    struct loop loop = {.left = 0};
    struct grpc_client_options options = {.targets = address};
    BENCH_OK(grpc_client_open(&options, clock_system(), &loop.client, &fault), &fault);
    await_server(&loop);
    take_turns(bench, &loop, address, bench->quick ? STARTS_QUICK : STARTS);
    grpc_client_close(loop.client);
    (void)kill(server, SIGKILL);
    BENCH_CHECK(waitpid(server, NULL, 0) == server);
}
