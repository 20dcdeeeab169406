/* An in-process engine with its recorder, for tests: opened with threads, fed with definitions in JSON. */
#ifndef WEIR_TESTS_SUPPORT_ENGINE_FIXTURE_H
#define WEIR_TESTS_SUPPORT_ENGINE_FIXTURE_H

#include <sys/types.h>

#include "engine/in_process/in_process.h"
#include "support/recorder.h"

struct engine_fixture {
    struct engine *engine;
    struct recorder recorder;
    char directory[64]; /* for files that steps write; removed at the end */
    int64_t last_definition;
};

/* `options` may be NULL: exec open, no handlers. Fails the test when the engine cannot be opened. */
void engine_fixture_open(struct engine_fixture *fixture, const struct in_process_options *options);
/* The same without engine_run_threads(). */
void engine_fixture_open_stepped(struct engine_fixture *fixture, const struct in_process_options *options);
/* Only the directory. */
void engine_fixture_make_directory(struct engine_fixture *fixture);
void engine_fixture_close(struct engine_fixture *fixture);

/* "00000000-0000-7000-8000-00000000000N"; static storage for N < 64. */
const char *engine_fixture_id(int number);
/* Starts execution N with fence 1 and no history; every call has a definition of its own. */
void engine_fixture_start(struct engine_fixture *fixture, int number, const char *definition, const char *params);
/* With everything; `start->definition_id` is set when 0. */
void engine_fixture_start_with(struct engine_fixture *fixture, struct engine_start *start);
/* Returns when the loop of the engine has done every command that was given before: it refuses a start that came after
 * them. */
void engine_fixture_await_loop(struct engine_fixture *fixture);
struct engine_start engine_fixture_start_of(int number, const char *definition, const char *params);

/* Waits for the n-th report; fails the test when it does not come. See recorder_wait(). */
const struct report *engine_fixture_expect(struct engine_fixture *fixture, enum report_kind kind, int number,
                                           const char *step, int state, size_t n);
/* The end of execution N, of this kind. */
const struct report *engine_fixture_expect_end(struct engine_fixture *fixture, int number, enum end_state end_state);

/* Waits until the file is there and not empty and reads it (static storage, NUL-terminated); NULL after the deadline. */
const char *wait_for_file(const char *path);
pid_t wait_for_pid_file(const char *path);
/* True when the process is gone (or a zombie) before the deadline. */
bool wait_until_dead(pid_t pid);
bool is_alive(pid_t pid);

#endif
