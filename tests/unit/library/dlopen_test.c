/* A program that loads the library while it runs, and unloads it (a plug-in, an interpreter). */
#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <weir/weir.h>

#include "support/test.h"

static atomic_bool answers;
static atomic_int asked;
static atomic_bool takes_signals;

/* A name server that does not answer before it may. */
static int answer_late(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    (void)name;
    (void)service;
    (void)found;
    if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0) { /* asks nobody */
        return EAI_NONAME;
    }
    sigset_t blocked;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    takes_signals = sigismember(&blocked, SIGALRM) != 1 || sigismember(&blocked, SIGTERM) != 1;
    asked++;
    while (!answers) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return EAI_NONAME;
}

/* Takes the place of the C library's. */
extern __typeof__(getaddrinfo) getaddrinfo __attribute__((alias("answer_late"), visibility("default")));

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(tasks);
    return count;
}

/* Nobody can interrupt a look-up, so its thread goes on after the call's deadline: in code that must still be there. */
static void unloading_the_library_leaves_no_thread_without_its_code(void **state)
{
    (void)state;
    struct weir_error error = {.status = WEIR_OK};
    void *library = dlopen(getenv("WEIR_SHARED_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, "weir_migrate");
    enum weir_status (*migrate)(const char *url, int *ret_applied, struct weir_error *error) = NULL;
    assert_non_null(symbol);
    memcpy(&migrate, &symbol, sizeof migrate);
    assert_int_equal(migrate("postgres://slow.invalid/db", NULL, &error), WEIR_STORE_UNREACHABLE);
    while (asked == 0) { /* its thread may be late */
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    assert_false(takes_signals); /* they are the host's, and for its own threads */
    assert_true(threads() > 1);
    assert_int_equal(dlclose(library), 0);
    answers = true;
    while (threads() > 1) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unloading_the_library_leaves_no_thread_without_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
