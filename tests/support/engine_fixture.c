/* Opens an in-process engine with a recorder, starts executions and waits for their reports.
 *
 * Each start gets a definition id of its own, so that no test meets a cached definition of another. Waits end at an event
 * or at the recorder's deadline; nothing sleeps for a fixed time. close() closes the engine before the recorder, because
 * the engine reports until then.
 */
#include "support/engine_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"

void engine_fixture_make_directory(struct engine_fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    (void)snprintf(fixture->directory, sizeof fixture->directory, "/tmp/weir-engine-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
}

static void open_engine(struct engine_fixture *fixture, const struct in_process_options *options, bool with_threads)
{
    struct in_process_options plain = {.allow_exec = true};
    struct weir_error error;
    engine_fixture_make_directory(fixture);
    assert_int_equal(in_process_open(options != NULL ? options : &plain, &fixture->engine, &error), WEIR_OK);
    recorder_init(&fixture->recorder, fixture->engine);
    if (with_threads) {
        assert_int_equal(engine_run_threads(fixture->engine, &error), WEIR_OK);
    }
}

void engine_fixture_open(struct engine_fixture *fixture, const struct in_process_options *options)
{
    open_engine(fixture, options, true);
}

void engine_fixture_open_stepped(struct engine_fixture *fixture, const struct in_process_options *options)
{
    open_engine(fixture, options, false);
}

void engine_fixture_close(struct engine_fixture *fixture)
{
    if (fixture->engine != NULL) {
        engine_close(fixture->engine);
        recorder_close(&fixture->recorder);
    }
    DIR *directory = opendir(fixture->directory);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    (void)rmdir(fixture->directory);
}

const char *engine_fixture_id(int number)
{
    static char ids[64][UUID_TEXT_MAX];
    (void)snprintf(ids[number], UUID_TEXT_MAX, "00000000-0000-7000-8000-%012d", number);
    return ids[number];
}

struct engine_start engine_fixture_start_of(int number, const char *definition, const char *params)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "test",
                                 .version = 3,
                                 .definition = definition,
                                 .params = params,
                                 .params_length = strlen(params),
                                 .fence = 1,
                                 .start_number = 1};
    memcpy(start.id, engine_fixture_id(number), sizeof start.id);
    return start;
}

void engine_fixture_start_with(struct engine_fixture *fixture, struct engine_start *start)
{
    struct weir_error error;
    if (start->definition_id == 0) {
        start->definition_id = ++fixture->last_definition;
    }
    assert_int_equal(engine_start(fixture->engine, start, &error), WEIR_OK);
}

void engine_fixture_start(struct engine_fixture *fixture, int number, const char *definition, const char *params)
{
    struct engine_start start = engine_fixture_start_of(number, definition, params);
    engine_fixture_start_with(fixture, &start);
}

const struct report *engine_fixture_expect(struct engine_fixture *fixture, enum report_kind kind, int number,
                                           const char *step, int state, size_t n)
{
    const struct report *report = recorder_wait(&fixture->recorder, kind, engine_fixture_id(number), step, state, n);
    assert_non_null(report);
    return report;
}

const struct report *engine_fixture_expect_end(struct engine_fixture *fixture, int number, enum end_state end_state)
{
    const struct report *report = engine_fixture_expect(fixture, REPORT_ENDED, number, NULL, -1, 1);
    if (report->end_state != end_state) {
        recorder_print(&fixture->recorder);
    }
    assert_int_equal(report->end_state, end_state);
    return report;
}

static void pause_briefly(void)
{
    struct timespec pause = {.tv_nsec = 2000000};
    (void)nanosleep(&pause, NULL);
}

enum { TRIES = RECORDER_DEADLINE_S * 500 };

const char *wait_for_file(const char *path)
{
    static char text[64 * 1024];
    for (int i = 0; i < TRIES; i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        if (fd >= 0) {
            (void)close(fd);
        }
        if (length > 0) {
            text[length] = '\0';
            return text;
        }
        pause_briefly();
    }
    return NULL;
}

pid_t wait_for_pid_file(const char *path)
{
    for (int i = 0; i < TRIES; i++) {
        const char *text = wait_for_file(path);
        if (text == NULL) {
            return -1;
        }
        if (strchr(text, '\n') != NULL) {
            return (pid_t)strtol(text, NULL, 10);
        }
        pause_briefly();
    }
    return -1;
}

bool is_alive(pid_t pid)
{
    char path[64];
    char text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *state = length > 0 ? strrchr(text, ')') : NULL;
    return state != NULL && state[2] != 'Z' && state[2] != 'X';
}

bool wait_until_dead(pid_t pid)
{
    for (int i = 0; i < TRIES; i++) {
        if (!is_alive(pid)) {
            return true;
        }
        pause_briefly();
    }
    return false;
}

void engine_fixture_await_loop(struct engine_fixture *fixture)
{
    static int number = 0;
    int probe = 40 + number++ % 20;
    struct engine_start start = engine_fixture_start_of(probe, "{}", "{}");
    size_t before = recorder_count(&fixture->recorder, REPORT_REFUSED, engine_fixture_id(probe), NULL, -1);
    engine_fixture_start_with(fixture, &start);
    (void)engine_fixture_expect(fixture, REPORT_REFUSED, probe, NULL, -1, before + 1);
}
