/* Runs chosen tests of a test program, and traces the points that each test reaches. tools/mutants.py compiles this file as
 * a library and preloads it, so that a mutant meets the few tests that reach it instead of whole programs.
 *
 *   WEIR_MUTANTS_TESTS    the names of the tests to run, separated by commas; without it all run
 *   WEIR_MUTANTS_TRACE    a file that gets one line for each test: its name, its microseconds, the points that it reached
 *   WEIR_MUTANTS_REACHED  the file of reached points (switch.h); with a trace it is cleared after each test
 *
 * The order of the tests and the fixture of the group stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { POINTS = 65536, TESTS_MOST = 1000 };

typedef int run_group(const char *, const struct CMUnitTest *, size_t, CMFixtureFunction, CMFixtureFunction);

static struct CMUnitTest originals[TESTS_MOST];
static struct CMUnitTest chosen[TESTS_MOST];
static size_t current; /* the test under way; the next one when there is none */
static struct timespec began;
static FILE *trace;
static unsigned char *reached;

/* Servers and other programs that the tests start do not get the library. */
__attribute__((constructor)) static void stay_alone(void)
{
    (void)unsetenv("LD_PRELOAD");
}

static bool is_chosen(const char *name)
{
    const char *names = getenv("WEIR_MUTANTS_TESTS");
    size_t length = strlen(name);
    if (names == NULL) {
        return true;
    }
    for (const char *at = strstr(names, name); at != NULL; at = strstr(at + 1, name)) {
        if ((at == names || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static void open_trace(void)
{
    const char *path = getenv("WEIR_MUTANTS_TRACE");
    const char *points = getenv("WEIR_MUTANTS_REACHED");
    int fd = points == NULL ? -1 : open(points, O_RDWR | O_CLOEXEC);
    if (path == NULL || fd < 0) {
        return;
    }
    void *map = mmap(NULL, POINTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    reached = map == MAP_FAILED ? NULL : map;
    (void)close(fd);
    trace = reached == NULL ? NULL : fopen(path, "ae");
}

static int begin_test(void **state)
{
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    return originals[current].setup_func == NULL ? 0 : originals[current].setup_func(state);
}

static int end_test(void **state)
{
    const struct CMUnitTest *test = &originals[current++];
    int result = test->teardown_func == NULL ? 0 : test->teardown_func(state);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)fprintf(trace, "%s %lld", test->name,
                  (long long)(now.tv_sec - began.tv_sec) * 1000000 + (now.tv_nsec - began.tv_nsec) / 1000);
    for (int i = 0; i < POINTS; i++) {
        if (reached[i] != 0) {
            (void)fprintf(trace, " %d", i);
            reached[i] = 0;
        }
    }
    (void)fprintf(trace, "\n");
    (void)fflush(trace);
    return result;
}

int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *const tests, const size_t count,
                            CMFixtureFunction setup, CMFixtureFunction teardown)
{
    run_group *run = (run_group *)dlsym(RTLD_NEXT, "_cmocka_run_group_tests");
    size_t kept = 0;
    open_trace();
    for (size_t i = 0; i < count && kept < TESTS_MOST; i++) {
        if (is_chosen(tests[i].name)) {
            originals[kept] = chosen[kept] = tests[i];
            chosen[kept].setup_func = trace == NULL ? tests[i].setup_func : begin_test;
            chosen[kept].teardown_func = trace == NULL ? tests[i].teardown_func : end_test;
            kept++;
        }
    }
    current = 0;
    return kept == 0 ? 0 : run(name, chosen, kept, setup, teardown);
}
