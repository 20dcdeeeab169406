/* Another process's commit wakes this one without a poll. */
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "observe/event.h"
#include "store/driver.h"
#include "support/refused_watches.h"

/* Where another process tells that its commit has come as far as the sync of the log, and waits; -1 = it does not. */
static int held_out = -1;
static int held_in = -1;

/* In the place of the fdatasync() that SQLite would call. */
__attribute__((visibility("default"))) int sync_or_hold(int fd) __asm__("fdatasync");

int sync_or_hold(int fd)
{
    char byte = 's';
    if (held_out >= 0 && (write(held_out, &byte, 1) != 1 || read(held_in, &byte, 1) != 1)) {
        _exit(2);
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static bool drained_until_changed(struct scene *scene, int64_t deadline_us)
{
    struct pollfd waited = {.fd = store_wake_fd(scene->store), .events = POLLIN};
    int64_t end_us = clock_boot(clock_system()) + deadline_us;
    int64_t again_us = TIME_NEVER;
    while (clock_boot(clock_system()) < end_us) {
        int wait_ms = again_us == TIME_NEVER ? (int)(deadline_us / 1000) : (int)(again_us / 1000) + 1;
        (void)poll(&waited, 1, wait_ms);
        if (store_wake_drain(scene->store, &again_us)) {
            return true;
        }
    }
    return false;
}

static void quiet_down(struct scene *scene)
{
    int64_t again_us = 0;
    for (int i = 0; i < 50 && again_us != TIME_NEVER; i++) {
        (void)store_wake_drain(scene->store, &again_us);
    }
    assert_int_equal(again_us, TIME_NEVER);
}

/* Forked while the scene has its store closed: SQLite's locks do not survive a fork. For each byte that it reads it
 * enqueues once, held up at each sync when it is an 'h'; at the end of them it ends. */
struct other_process {
    pid_t pid;
    int asks;
    int answers;
};

_Noreturn static void enqueue_when_asked(struct scene *scene, int asks, int answers)
{
    char byte;
    while (read(asks, &byte, 1) == 1) {
        struct store *store = driver_open(&scene->driver, NULL);
        struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello"};
        struct enqueue_result result;
        bool is_held = byte == 'h';
        held_out = is_held ? answers : -1;
        held_in = is_held ? asks : -1;
        enum weir_status status = store_enqueue(store, &request, 1, &result, &scene->error);
        held_out = -1;
        char answer = status == WEIR_OK && result.status == WEIR_OK ? 'y' : 'n';
        if (is_held) { /* closing the log is a notice, too */
            (void)!write(answers, &answer, 1);
            (void)!read(asks, &byte, 1);
        }
        store_close(store);
        if (!is_held) {
            (void)!write(answers, &answer, 1);
        }
    }
    _exit(0);
}

static struct other_process start_other_process(struct scene *scene)
{
    int asks[2];
    int answers[2];
    assert_int_equal(pipe(asks), 0);
    assert_int_equal(pipe(answers), 0);
    store_close(scene->store);
    pid_t pid = test_fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(asks[1]);
        enqueue_when_asked(scene, asks[0], answers[1]);
    }
    (void)close(asks[0]);
    (void)close(answers[1]);
    scene->store = driver_open(&scene->driver, NULL);
    return (struct other_process){.pid = pid, .asks = asks[1], .answers = answers[0]};
}

static void enqueue_in_another_process(const struct other_process *other)
{
    char answer = 0;
    assert_int_equal(write(other->asks, "x", 1), 1);
    assert_int_equal(read(other->answers, &answer, 1), 1);
    assert_int_equal(answer, 'y');
}

static void end_other_process(const struct other_process *other)
{
    int how = 0;
    (void)close(other->asks);
    (void)close(other->answers);
    assert_int_equal(waitpid(other->pid, &how, 0), other->pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void an_enqueue_of_another_process_wakes(void **state)
{
    struct scene *scene = *state;
    struct other_process other = start_other_process(scene);
    assert_true((store_features(scene->store) & STORE_WAKES) != 0);
    assert_true(store_wake_fd(scene->store) >= 0);
    for (int i = 0; i < 5; i++) {
        quiet_down(scene);
        enqueue_in_another_process(&other);
        assert_true(drained_until_changed(scene, SECONDS(60)));
        assert_true(scene_look(scene).ready);
        assert_int_equal(scene_claim(scene, 10).count, 1);
    }
    end_other_process(&other);
}

/* SQLite keeps the log beside the file, not beside the link. */
static void a_store_that_was_opened_by_a_symbolic_link_is_woken(void **state)
{
    struct scene *scene = *state;
    char file[300];
    char link[300];
    struct store_options options = {.url = link, .clock = &scene->driver.time.clock};
    (void)snprintf(file, sizeof file, "%s/weir.db", scene->driver.place);
    (void)snprintf(link, sizeof link, "%s/link.db", scene->driver.place);
    assert_int_equal(symlink(file, link), 0);
    struct other_process other = start_other_process(scene);
    store_close(scene->store);
    scene_ok(scene, store_open(&options, &scene->store, &scene->error));
    assert_true(store_wake_fd(scene->store) >= 0);
    quiet_down(scene);
    enqueue_in_another_process(&other);
    assert_true(drained_until_changed(scene, SECONDS(60)));
    end_other_process(&other);
    assert_int_equal(unlink(link), 0);
}

static char await_byte(int channel)
{
    struct pollfd readable = {.fd = channel, .events = POLLIN};
    char byte = 0;
    assert_int_equal(poll(&readable, 1, 60000), 1);
    assert_int_equal(read(channel, &byte, 1), 1);
    return byte;
}

/* A commit is looked for until it is visible, and no longer: each look costs an idle node something. */
static void a_commit_is_looked_for_until_it_is_seen(void **state)
{
    struct scene *scene = *state;
    int64_t again_us = TIME_NEVER;
    struct other_process other = start_other_process(scene);
    quiet_down(scene);
    assert_int_equal(write(other.asks, "h", 1), 1);
    char byte = await_byte(other.answers);
    assert_int_equal(byte, 's');
    for (; byte == 's'; byte = await_byte(other.answers)) { /* its notice is there, the commit is not */
        for (int i = 0; i < 3; i++) {
            assert_false(store_wake_drain(scene->store, &again_us));
            assert_true(again_us < SECONDS(1));
        }
        assert_int_equal(write(other.asks, "g", 1), 1);
    }
    assert_int_equal(byte, 'y');
    assert_true(store_wake_drain(scene->store, &again_us));
    assert_int_equal(again_us, TIME_NEVER);
    assert_int_equal(write(other.asks, "g", 1), 1);
    end_other_process(&other);
    assert_int_equal(scene_claim(scene, 10).count, 1);
}

struct told {
    int unwatched;
    int watched;
    char error[WEIR_ERROR_MESSAGE_MAX];
};

static void note_told(void *context, const struct event *event)
{
    struct told *told = context;
    told->watched += event->type == EVENT_STORE_WATCHED;
    if (event->type == EVENT_STORE_UNWATCHED) {
        told->unwatched++;
        (void)snprintf(told->error, sizeof told->error, "%s", event->error);
    }
}

static void a_watch_that_could_not_be_made_is_tried_again_and_told(void **state)
{
    struct scene *scene = *state;
    struct told told = {0};
    struct event_bus events = {.count = 0};
    struct other_process other = start_other_process(scene);
    assert_true(event_subscribe(&events, note_told, &told));
    scene->store->events = &events;
    watches_to_refuse = 2;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(store_wake_fd(scene->store), -1);
    }
    assert_int_equal(watches_to_refuse, 1); /* not more than once in a second */
    scene_pass(scene, SECONDS(1));
    assert_int_equal(store_wake_fd(scene->store), -1);
    assert_int_equal(watches_to_refuse, 0);
    assert_int_equal(told.unwatched, 1);
    assert_non_null(strstr(told.error, "Too many open files; raise fs.inotify.max_user_instances"));
    enqueue_in_another_process(&other);
    scene_pass(scene, SECONDS(1));
    assert_true(store_wake_fd(scene->store) >= 0);
    assert_int_equal(told.watched, 1);
    int64_t again_us = 0;
    assert_true(store_wake_drain(scene->store, &again_us)); /* of what came meanwhile */
    quiet_down(scene);
    enqueue_in_another_process(&other);
    assert_true(drained_until_changed(scene, SECONDS(60)));
    end_other_process(&other);
    assert_int_equal(told.unwatched, 1);
    assert_int_equal(told.watched, 1);
    scene->store->events = NULL;
}

static void nothing_new_is_no_change(void **state)
{
    struct scene *scene = *state;
    int64_t again_us = 0;
    quiet_down(scene);
    for (int i = 0; i < 10; i++) {
        assert_false(store_wake_drain(scene->store, &again_us));
        assert_int_equal(again_us, TIME_NEVER);
    }
}

static void reading_wakes_nobody(void **state)
{
    struct scene *scene = *state;
    int64_t again_us = 0;
    struct store *reader = driver_open(&scene->driver, NULL);
    scene->keeps_claimers = true;
    for (int i = 0; i < 10; i++) { /* takes the role and publishes the books */
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
    quiet_down(scene);
    for (int i = 0; i < 10; i++) {
        json_t *status = NULL;
        scene_ok(scene, store_status(reader, 10, &status, &scene->error));
        json_decref(status);
        scene_pass(scene, SECONDS(2)); /* a writer notes the time once a second */
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
    assert_false(store_wake_drain(scene->store, &again_us));
    store_close(reader);
}

static void a_read_only_handle_reads_and_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct store *reader = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    store_close(scene->store);
    struct store_options options = {.url = scene->driver.url, .read_only = true, .clock = &scene->driver.time.clock};
    scene_ok(scene, store_open(&options, &reader, &scene->error));
    json_t *shown = NULL;
    scene_ok(scene, store_show(reader, id, &shown, &scene->error));
    json_decref(shown);
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello"};
    struct enqueue_result result;
    assert_int_equal(store_enqueue(reader, &request, 1, &result, &scene->error), WEIR_NOT_PERMITTED);
    assert_true(strlen(scene->error.message) > 0);
    store_close(reader);
    scene->store = driver_open(&scene->driver, NULL);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

/* A read-only handle and a writing one in one process must not share the wrong writer. */
static void a_writer_beside_a_read_only_handle_writes(void **state)
{
    struct scene *scene = *state;
    struct store *reader = NULL;
    struct store *writer = NULL;
    struct store_options options = {.url = scene->driver.url, .read_only = true, .clock = &scene->driver.time.clock};
    store_close(scene->store);
    scene_ok(scene, store_open(&options, &reader, &scene->error));
    options.read_only = false;
    scene_ok(scene, store_open(&options, &writer, &scene->error));
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello"};
    struct enqueue_result result;
    scene_ok(scene, store_enqueue(writer, &request, 1, &result, &scene->error));
    assert_int_equal(store_enqueue(reader, &request, 1, &result, &scene->error), WEIR_NOT_PERMITTED);
    store_close(writer);
    store_close(reader);
    scene->store = driver_open(&scene->driver, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_enqueue_of_another_process_wakes),
        SCENE_TEST(a_store_that_was_opened_by_a_symbolic_link_is_woken),
        SCENE_TEST(a_commit_is_looked_for_until_it_is_seen),
        SCENE_TEST(a_watch_that_could_not_be_made_is_tried_again_and_told),
        SCENE_TEST(nothing_new_is_no_change),
        SCENE_TEST(reading_wakes_nobody),
        SCENE_TEST(a_read_only_handle_reads_and_changes_nothing),
        SCENE_TEST(a_writer_beside_a_read_only_handle_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
