/* On one real Temporal server (tools/install_temporal.sh):
 *
 * - Starts through weir against a plain loop of the same calls. The server is the limit of both; what weir does beside
 *   (queue, caps, fairness, records, following) must not show. The server gets slower the more it holds and the machine's
 *   speed drifts, so the two take turns: loop, weir, weir, loop. A turn is compared with the one beside it, and the pair
 *   with the middle ratio counts: a disk that stands still for a moment would outweigh all other pairs.
 * - With a worker, the time of a lone execution: from its enqueue to the event that its end is on record, beside a plain
 *   client that starts the same workflow and waits for its result. They take turns one by one, and the medians are
 * compared.
 * - With a worker, from the close of a workflow to the start of the next one of a workspace that has one slot, both by the
 *   server's own clock: with waiting calls, on each store, and by the list alone. */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/temporal/encode.h"
#include "engine/temporal/temporal.h"
#include "postgres_scene.h"
#include "support/postgres_server.h"
#include "temporal_scene.h"

enum { STARTS = 800, STARTS_QUICK = 40, TURNS = 7, WIDTH = 64, READY_SECONDS_MAX = 60, RUN_SECONDS_MAX = 300 };
enum { FULL_WORKSPACES = 10, IN_TURN = 20, IN_TURN_QUICK = 3, GAPS_MAX = FULL_WORKSPACES * IN_TURN };
enum { LONE = 60, LONE_QUICK = 3 };
#define SERVICE_PATH "/temporal.api.workflowservice.v1.WorkflowService/"
#define WORKED_DEFINITION "{\"name\":\"worked\",\"temporal\":{\"task_queue\":\"worked\",\"workflow_type\":\"Noop\"}}"
#define CALL_TIMEOUT_US (30 * MICROSECONDS_PER_SECOND)

static struct weir_error fault;

/* --- the server --- */

/* A program whose output is read to its end; then end_program(). */
struct program {
    pid_t pid;
    FILE *output;
};

static struct program start_program(const char *const *words)
{
    int ends[2];
    BENCH_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        BENCH_CHECK(dup2(ends[1], 1) == 1);
        (void)execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    (void)close(ends[1]);
    struct program program = {child, fdopen(ends[0], "r")};
    BENCH_CHECK(program.output != NULL);
    return program;
}

static void end_program(struct program *program)
{
    int how = 0;
    (void)fclose(program->output);
    BENCH_CHECK(waitpid(program->pid, &how, 0) == program->pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* Where the installer puts it; false when it has not. */
static bool find_installed(char *folder, size_t size)
{
    static const char *const words[] = {"sh", WEIR_SOURCE_ROOT "/tools/install_temporal.sh", "where", NULL};
    char complete[BENCH_PATH_MAX + 16];
    struct program installer = start_program(words);
    BENCH_CHECK(fgets(folder, (int)size, installer.output) != NULL);
    end_program(&installer);
    folder[strcspn(folder, "\n")] = '\0';
    (void)snprintf(complete, sizeof complete, "%s/complete", folder);
    return access(complete, R_OK) == 0;
}

static pid_t start_server(const struct bench *bench, const char *installed, int port)
{
    char binary[BENCH_PATH_MAX + 16];
    (void)snprintf(binary, sizeof binary, "%s/bin/temporal", installed);
    char port_text[16];
    char file[BENCH_PATH_MAX + 16];
    (void)snprintf(port_text, sizeof port_text, "%d", port);
    (void)snprintf(file, sizeof file, "%s/temporal-server.db", bench->folder);
    fflush(NULL);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        BENCH_CHECK(null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2);
        (void)setenv("HOME", bench->folder, 1);
        (void)execl(binary, binary, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port_text,
                    "--log-level", "error", "--db-filename", file, "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma",
                    "synchronous=NORMAL", (char *)NULL);
        _exit(127);
    }
    return child;
}

/* --- the plain loop --- */

/* The longest time in which nothing became of any start: who stood still, when a turn took long. */
struct pauses {
    size_t seen;
    double seen_at;
    double longest;
};

static void note_progress(struct pauses *pauses, size_t count)
{
    double now = bench_now();
    double pause = now - pauses->seen_at;
    pauses->longest = pause > pauses->longest ? pause : pauses->longest;
    if (count != pauses->seen) {
        pauses->seen = count;
        pauses->seen_at = now;
    }
}

struct loop {
    struct grpc_client *client;
    size_t next; /* number of the next start, never used twice */
    size_t left;
    size_t under_way;
    size_t fine;
    struct pauses pauses;
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
    struct start_fields fields = {.task_queue = "q"};
    (void)snprintf(fields.workflow_id, sizeof fields.workflow_id, WORKFLOW_ID_PREFIX "%s", id);
    struct start_message message = {.namespace_name = TEMPORAL_NAMESPACE_DEFAULT,
                                    .execution_id = id,
                                    .workspace = fixture_workspace(loop->next % TEMPORAL_WORKSPACES),
                                    .identity = "loop",
                                    .workflow_type = TEMPORAL_WORKFLOW,
                                    .fields = &fields,
                                    .input = "{}",
                                    .input_length = 2,
                                    .encoding = TEMPORAL_ENCODING_DEFAULT};
    struct bytes bytes = encode_start(&message);
    BENCH_CHECK(bytes.data != NULL);
    struct grpc_request request = {.path = SERVICE_PATH "StartWorkflowExecution",
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
        note_progress(&loop->pauses, loop->fine);
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
    loop->pauses = (struct pauses){.seen_at = began};
    BENCH_CHECK(run_loop(loop, starts));
    double seconds = bench_now() - began;
    printf("temporal-service: loop %5.2f s, longest pause %4.0f ms\n", seconds, loop->pauses.longest * 1e3);
    return seconds;
}

/* From the enqueue to the last record. */
static double time_weir(struct temporal_scene *scene, struct store *store, size_t starts)
{
    size_t before = atomic_load(&scene->dispatched);
    double began = bench_now();
    fixture_fill_with(store, TEMPORAL_WORKFLOW, 0, TEMPORAL_WORKSPACES, starts);
    double filled = bench_now();
    struct pauses pauses = {.seen_at = filled};
    for (size_t count = 0; count < starts; count = atomic_load(&scene->dispatched) - before) {
        struct timespec pause = {.tv_nsec = 5000000}; /* looking more often would take time from the measured work */
        (void)nanosleep(&pause, NULL);
        note_progress(&pauses, count);
        BENCH_CHECK(bench_now() - began < RUN_SECONDS_MAX);
    }
    double seconds = bench_now() - began;
    printf("temporal-service: weir %5.2f s, longest pause %4.0f ms; the enqueue took %.0f ms of it\n", seconds,
           pauses.longest * 1e3, (filled - began) * 1e3);
    return seconds;
}

/* Of an odd number of turns, the one whose ratio has as many above it as below. */
static int middle_pair(const double *loop_seconds, const double *weir_seconds)
{
    for (int turn = 0; turn < TURNS; turn++) {
        double ratio = loop_seconds[turn] / weir_seconds[turn];
        int lower = 0;
        int equal = 0; /* with itself at least */
        for (int other = 0; other < TURNS; other++) {
            double its_ratio = loop_seconds[other] / weir_seconds[other];
            lower += its_ratio < ratio;
            equal += its_ratio >= ratio && its_ratio <= ratio;
        }
        if (lower <= TURNS / 2 && lower + equal > TURNS / 2) {
            return turn;
        }
    }
    return 0;
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
    double loop_seconds[TURNS];
    double weir_seconds[TURNS];
    (void)time_loop(loop, starts / 2); /* both are warm before anything counts */
    (void)time_weir(&scene, store, starts / 2);
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 2 == 0) {
            loop_seconds[turn] = time_loop(loop, starts);
            weir_seconds[turn] = time_weir(&scene, store, starts);
        } else {
            weir_seconds[turn] = time_weir(&scene, store, starts);
            loop_seconds[turn] = time_loop(loop, starts);
        }
    }
    int middle = middle_pair(loop_seconds, weir_seconds);
    bench_report(bench, "temporal service: starts through weir", (double)starts / weir_seconds[middle], "starts/s",
                 (double)starts / loop_seconds[middle], RATIO_AT_LEAST, 0.95);
    temporal_scene_stop(&scene);
    fixture_check(store);
    store_close(store);
}

/* --- the next one --- */

/* A worker of the tests; it has come up when it reports that, and ends with its standard input. */
struct worker {
    pid_t pid;
    int input;
};

static struct worker start_worker(const struct bench *bench, const char *installed, const char *address)
{
    int input[2];
    int output[2];
    char python[BENCH_PATH_MAX + 32];
    char records[BENCH_PATH_MAX + 16];
    char ready[8] = "";
    size_t length = 0;
    (void)snprintf(python, sizeof python, "%s/venv/bin/python", installed);
    (void)snprintf(records, sizeof records, "%s/records", bench->folder);
    BENCH_CHECK(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        BENCH_CHECK(dup2(input[0], 0) == 0 && dup2(output[1], 1) == 1);
        (void)execl(python, python, WEIR_SOURCE_ROOT "/tests/end_to_end/temporal_worker.py", address,
                    TEMPORAL_NAMESPACE_DEFAULT, "worked", records, (char *)NULL);
        _exit(127);
    }
    (void)close(input[0]);
    (void)close(output[1]);
    while (length < strlen("ready\n")) { /* it may come in parts */
        ssize_t part = read(output[0], ready + length, sizeof ready - 1 - length);
        BENCH_CHECK(part > 0);
        length += (size_t)part;
    }
    BENCH_CHECK(strcmp(ready, "ready\n") == 0);
    (void)close(output[0]);
    return (struct worker){child, input[1]};
}

static void stop_worker(const struct worker *worker)
{
    (void)kill(worker->pid, SIGKILL);
    BENCH_CHECK(waitpid(worker->pid, NULL, 0) == worker->pid);
    (void)close(worker->input);
}

static void count_completed(void *context, const struct event *event)
{
    if (event->type == EVENT_EXECUTION_COMPLETED) {
        atomic_fetch_add((atomic_size_t *)context, 1);
    }
}

struct open_time {
    char workspace[32];
    double started;
    double closed;
};

static int compare_times(const void *a, const void *b)
{
    const struct open_time *x = a;
    const struct open_time *y = b;
    int by_name = strcmp(x->workspace, y->workspace);
    return by_name != 0 ? by_name : x->started < y->started ? -1 : x->started > y->started;
}

/* Of the workspaces whose names begin with `prefix`, by the server's list. */
static size_t read_times(const char *installed, const char *address, const char *prefix, struct open_time *times)
{
    char python[BENCH_PATH_MAX + 32];
    char line[1024];
    size_t count = 0;
    (void)snprintf(python, sizeof python, "%s/venv/bin/python", installed);
    const char *const words[] = {
        python, WEIR_SOURCE_ROOT "/tests/end_to_end/temporal_ask.py", address, TEMPORAL_NAMESPACE_DEFAULT, "runs", NULL};
    struct program asked = start_program(words);
    while (fgets(line, sizeof line, asked.output) != NULL) {
        json_t *run = json_loads(line, 0, NULL);
        const char *workspace = json_string_value(json_object_get(run, "workspace"));
        if (workspace != NULL && strncmp(workspace, prefix, strlen(prefix)) == 0) {
            BENCH_CHECK(count < GAPS_MAX);
            text_copy(times[count].workspace, sizeof times[count].workspace, workspace);
            times[count].started = json_number_value(json_object_get(run, "started"));
            times[count].closed = json_number_value(json_object_get(run, "closed"));
            count++;
        }
        json_decref(run);
    }
    end_program(&asked);
    return count;
}

/* From the close of one to the start of the next of its workspace, in seconds. */
struct gaps {
    double all[GAPS_MAX];
    size_t count;
    double firsts[FULL_WORKSPACES]; /* behind the first of each backlog */
    size_t first_count;
};

/* Runs them all, one after the other in each workspace. */
static void measure_gaps(struct bench *bench, struct store *store, const char *installed, const char *address,
                         const char *prefix, size_t polls_max, struct gaps *ret_gaps)
{
    static struct open_time times[GAPS_MAX];
    static struct enqueue_request requests[GAPS_MAX];
    static struct enqueue_result results[GAPS_MAX];
    char names[FULL_WORKSPACES][32];
    struct temporal_scene scene;
    struct engine *engine = NULL;
    atomic_size_t completed = 0;
    size_t in_turn = bench->quick ? IN_TURN_QUICK : IN_TURN;
    size_t all = in_turn * FULL_WORKSPACES;
    struct plan_change plan = {.name = "one", .max_concurrent = 1};
    BENCH_OK(store_set_plan(store, &plan, &fault), &fault);
    fixture_publish(store, "worked", WORKED_DEFINITION);
    for (size_t i = 0; i < FULL_WORKSPACES; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s-%zu", prefix, i);
        struct workspace_change workspace = {.name = names[i], .plan = plan.name, .paused = -1, .create = true};
        BENCH_OK(store_set_workspace(store, &workspace, &fault), &fault);
    }
    struct temporal_options options = {.address = address, .polls_max = polls_max};
    BENCH_OK(temporal_open(&options, &engine, &fault), &fault);
    temporal_scene_start_with(&scene, store, engine, count_completed, &completed);
    /* All at once, to a node that waits for it: the first of each workspace has waited for nothing. */
    for (size_t i = 0; i < all; i++) {
        requests[i] = (struct enqueue_request){.workspace = names[i % FULL_WORKSPACES], .workflow = "worked"};
    }
    BENCH_OK(store_enqueue(store, requests, all, results, &fault), &fault);
    node_wake(scene.node.node);
    double end = bench_now() + RUN_SECONDS_MAX;
    while (atomic_load(&completed) < all) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 10000000};
        BENCH_CHECK(bench_now() < end);
        (void)nanosleep(&pause, NULL);
    }
    temporal_scene_stop(&scene);
    end = bench_now() + RUN_SECONDS_MAX;
    while (read_times(installed, address, prefix, times) < all) {
        BENCH_CHECK(bench_now() < end);
    }
    qsort(times, all, sizeof *times, compare_times);
    *ret_gaps = (struct gaps){.count = 0};
    for (size_t i = 1; i < all; i++) {
        if (strcmp(times[i].workspace, times[i - 1].workspace) == 0) {
            double gap = times[i].started - times[i - 1].closed;
            BENCH_CHECK(gap > 0); /* never two at once */
            ret_gaps->all[ret_gaps->count++] = gap;
            if (i % in_turn == 1) {
                ret_gaps->firsts[ret_gaps->first_count++] = gap;
            }
        }
    }
}

static void report_gaps(struct bench *bench, const char *what, const char *store_name, double *gaps, size_t count,
                        double share, double goal_ms)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "temporal service: %s, %s, p%.0f", what, store_name, share * 100);
    bench_report(bench, name, bench_percentile(gaps, count, share) * 1000, "ms", 0, VALUE_AT_MOST, goal_ms);
}

static void measure_next_on(struct bench *bench, struct store *store, const char *store_name, const char *installed,
                            const char *address)
{
    struct gaps gaps;
    char prefix[32];
    (void)snprintf(prefix, sizeof prefix, "waited-%s", store_name);
    measure_gaps(bench, store, installed, address, prefix, 0, &gaps);
    report_gaps(bench, "close to next start", store_name, gaps.all, gaps.count, 0.5, 100);
    report_gaps(bench, "close to next start", store_name, gaps.all, gaps.count, 0.99, 5000);
    report_gaps(bench, "behind the first of a backlog", store_name, gaps.firsts, gaps.first_count, 0.5, 100);
}

static void measure_next_on_postgres(struct bench *bench, const char *installed, const char *address)
{
    struct postgres_server server;
    struct postgres_scene database;
    if (postgres_scene_server(bench, "temporal-service", &server)) {
        postgres_scene_open(&database, &server, "service", true);
        measure_next_on(bench, database.store, "postgres", installed, address);
        postgres_scene_close(&database);
        postgres_server_close(&server);
    }
}

/* --- a lone execution --- */

struct client_answer {
    bool is_here;
    uint8_t *bytes;
    size_t length;
};

static void keep_answer(void *context, const struct grpc_result *result)
{
    struct client_answer *answer = context;
    BENCH_CHECK(result->outcome == GRPC_STATUS && result->code == GRPC_OK);
    answer->bytes = malloc(result->response_length + 1);
    BENCH_CHECK(answer->bytes != NULL);
    memcpy(answer->bytes, result->response, result->response_length);
    answer->length = result->response_length;
    answer->is_here = true;
}

/* Sends the message, which it frees, and waits for the answer; the caller frees that. */
static struct client_answer ask(struct grpc_client *client, const char *path, struct bytes message)
{
    struct client_answer answer = {.is_here = false};
    struct grpc_request request = {.path = path,
                                   .message = message.data,
                                   .message_length = message.length,
                                   .timeout_us = CALL_TIMEOUT_US,
                                   .done = keep_answer,
                                   .context = &answer};
    BENCH_CHECK(message.data != NULL);
    BENCH_OK(grpc_client_call(client, &request, NULL, &fault), &fault);
    free(message.data);
    while (!answer.is_here) {
        (void)grpc_client_step(client);
        struct pollfd polled = {.fd = grpc_client_fd(client), .events = POLLIN};
        if (!answer.is_here) {
            (void)poll(&polled, 1, 100);
        }
    }
    return answer;
}

/* As a client of an SDK does: starts the workflow, then waits for the event that closes it. In seconds. */
static double time_plain_client(struct grpc_client *client, size_t number)
{
    char id[UUID_TEXT_MAX];
    struct start_answer started;
    struct start_fields fields = {.task_queue = "worked"};
    (void)snprintf(id, sizeof id, "019ab000-0000-7000-8000-%012zu", number);
    (void)snprintf(fields.workflow_id, sizeof fields.workflow_id, "plain-%s", id);
    struct start_message message = {.namespace_name = TEMPORAL_NAMESPACE_DEFAULT,
                                    .execution_id = id,
                                    .workspace = "plain",
                                    .identity = "plain",
                                    .workflow_type = "Noop",
                                    .fields = &fields,
                                    .input = "{}",
                                    .input_length = 2,
                                    .encoding = TEMPORAL_ENCODING_DEFAULT};
    double began = bench_now();
    struct client_answer answer = ask(client, SERVICE_PATH "StartWorkflowExecution", encode_start(&message));
    BENCH_CHECK(decode_start(answer.bytes, answer.length, &started) == WEIR_OK);
    free(answer.bytes);
    struct close_event closing = {.kind = CLOSE_NONE};
    do {
        struct bytes asked =
            encode_close_event(TEMPORAL_NAMESPACE_DEFAULT, fields.workflow_id, started.run_id, true, closing.token);
        answer = ask(client, SERVICE_PATH "GetWorkflowExecutionHistory", asked);
        close_event_close(&closing);
        BENCH_CHECK(decode_close_event(answer.bytes, answer.length, &closing) == WEIR_OK);
        free(answer.bytes);
    } while (closing.kind == CLOSE_NONE);
    BENCH_CHECK(closing.kind == CLOSE_COMPLETED);
    close_event_close(&closing);
    return bench_now() - began;
}

static double time_lone_execution(struct store *store, const atomic_size_t *completed)
{
    struct enqueue_request request = {.workspace = "lone", .workflow = "worked"};
    struct enqueue_result result;
    size_t before = atomic_load(completed);
    double began = bench_now();
    BENCH_OK(store_enqueue(store, &request, 1, &result, &fault), &fault);
    while (atomic_load(completed) == before) {
        struct timespec pause = {.tv_nsec = 200000};
        BENCH_CHECK(bench_now() - began < RUN_SECONDS_MAX);
        (void)nanosleep(&pause, NULL);
    }
    return bench_now() - began;
}

static void measure_lone(struct bench *bench, struct store *store, struct grpc_client *client, const char *address)
{
    double plain[LONE];
    double weir[LONE];
    struct temporal_scene scene;
    struct engine *engine = NULL;
    atomic_size_t completed = 0;
    size_t count = bench->quick ? LONE_QUICK : LONE;
    struct workspace_change workspace = {.name = "lone", .paused = -1, .create = true};
    struct temporal_options options = {.address = address};
    fixture_publish(store, "worked", WORKED_DEFINITION);
    BENCH_OK(store_set_workspace(store, &workspace, &fault), &fault);
    BENCH_OK(temporal_open(&options, &engine, &fault), &fault);
    temporal_scene_start_with(&scene, store, engine, count_completed, &completed);
    (void)time_plain_client(client, 0); /* both are warm before anything counts */
    (void)time_lone_execution(store, &completed);
    for (size_t i = 0; i < count; i++) {
        plain[i] = time_plain_client(client, i + 1);
        weir[i] = time_lone_execution(store, &completed);
    }
    temporal_scene_stop(&scene);
    double plain_ms = bench_percentile(plain, count, 0.5) * 1000;
    double weir_ms = bench_percentile(weir, count, 0.5) * 1000;
    bench_note(bench, "temporal service: lone workflow, plain client, p50", plain_ms, "ms");
    bench_note(bench, "temporal service: lone execution through weir, p50", weir_ms, "ms");
    bench_report(bench, "temporal service: lone, more than the plain client, p50",
                 weir_ms > plain_ms ? weir_ms - plain_ms : 0, "ms", 0, VALUE_AT_MOST, 40);
}

static void measure_next(struct bench *bench, const char *installed, const char *address)
{
    struct gaps gaps;
    struct worker worker = start_worker(bench, installed, address);
    struct store *store = fixture_store(bench, "next");
    measure_next_on(bench, store, "sqlite", installed, address);
    measure_gaps(bench, store, installed, address, "listed", SIZE_MAX, &gaps);
    report_gaps(bench, "by the list alone", "sqlite", gaps.all, gaps.count, 0.99, 5000);
    store_close(store);
    measure_next_on_postgres(bench, installed, address);
    stop_worker(&worker);
}

static void measure_starts(struct bench *bench, struct loop *loop, const char *installed, const char *address)
{
    take_turns(bench, loop, address, bench->quick ? STARTS_QUICK : STARTS);
    measure_next(bench, installed, address);
}

static void measure_lone_ones(struct bench *bench, struct loop *loop, const char *installed, const char *address)
{
    struct worker worker = start_worker(bench, installed, address);
    struct store *store = fixture_store(bench, "lone");
    measure_lone(bench, store, loop->client, address);
    store_close(store);
    stop_worker(&worker);
}

/* Each group has a server of its own. */
static void run_on_service(struct bench *bench, const char *group,
                           void (*measure)(struct bench *bench, struct loop *loop, const char *installed,
                                           const char *address))
{
    char installed[BENCH_PATH_MAX];
    char address[32];
    if (!find_installed(installed, sizeof installed)) {
        printf("%s: left out: there is no Temporal server here (get it with: tools/install_temporal.sh)\n", group);
        return;
    }
    int port = postgres_server_free_port();
    pid_t server = start_server(bench, installed, port);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    struct loop loop = {.left = 0};
    struct grpc_client_options options = {.targets = address};
    BENCH_OK(grpc_client_open(&options, clock_system(), &loop.client, &fault), &fault);
    await_server(&loop);
    measure(bench, &loop, installed, address);
    grpc_client_close(loop.client);
    (void)kill(server, SIGKILL);
    BENCH_CHECK(waitpid(server, NULL, 0) == server);
}

void bench_temporal_service(struct bench *bench)
{
    run_on_service(bench, "temporal-service", measure_starts);
}

void bench_temporal_lone(struct bench *bench)
{
    run_on_service(bench, "temporal-lone", measure_lone_ones);
}
