/* A disk that is full: acknowledged writes stay, all others are refused, and work goes on when there is room again. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/scene.h"

enum { FILL_MOST = 20000, PARAMS_SIZE = 2000 };

static void limit_files(const struct scene *scene, rlim_t more)
{
    char path[300];
    struct stat file = {0};
    struct stat log = {0};
    (void)snprintf(path, sizeof path, "%s/weir.db", scene->driver.place);
    (void)stat(path, &file);
    (void)snprintf(path, sizeof path, "%s/weir.db-wal", scene->driver.place);
    (void)stat(path, &log);
    rlim_t size = (rlim_t)(file.st_size > log.st_size ? file.st_size : log.st_size) + more;
    struct rlimit limit = {size, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Runs in a child: fills until the store says that it is full; writes how many were acknowledged, or -1. */
static int fill(struct scene *scene, char *params)
{
    int acknowledged = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    limit_files(scene, 300000);
    for (int i = 0; i < FILL_MOST; i++) {
        struct enqueue_request request = {
            .workspace = "pro-co", .workflow = "hello", .params = params, .params_length = PARAMS_SIZE};
        struct enqueue_result result = {.status = WEIR_FAILED};
        enum weir_status status = store_enqueue(scene->store, &request, 1, &result, &scene->error);
        if (status != WEIR_OK) {
            print_message("# after %d: %s: %s native %d\n", acknowledged, weir_status_name(status), scene->error.message,
                          scene->error.native);
            bool clear = status == WEIR_STORE_FULL && strlen(scene->error.hint) > 0;
            json_t *answer = NULL; /* reading goes on */
            clear = clear && store_status(scene->store, 1, &answer, &scene->error) == WEIR_OK &&
                    json_number_at(answer, "pending") == acknowledged;
            struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
            clear = clear && setrlimit(RLIMIT_FSIZE, &none) == 0; /* room again: the same handle works */
            clear = clear && store_enqueue(scene->store, &request, 1, &result, &scene->error) == WEIR_OK;
            return clear ? acknowledged + 1 : -1;
        }
        acknowledged += result.status == WEIR_OK;
    }
    return -2;
}

static void a_full_disk_refuses_and_loses_nothing(void **state)
{
    struct scene *scene = *state;
    int pipe_ends[2];
    int acknowledged = -9;
    char params[PARAMS_SIZE + 1];
    memset(params, 'x', PARAMS_SIZE);
    memcpy(params, "{\"a\":\"", 6);
    memcpy(params + PARAMS_SIZE - 2, "\"}", 3);
    assert_int_equal(pipe(pipe_ends), 0);
    store_close(scene->store);
    pid_t child = test_fork();
    if (child == 0) {
        scene->store = driver_open(&scene->driver, NULL);
        int filled = fill(scene, params);
        (void)!write(pipe_ends[1], &filled, sizeof filled);
        _exit(0); /* as killed: nothing is closed */
    }
    assert_int_equal(read(pipe_ends[0], &acknowledged, sizeof acknowledged), sizeof acknowledged);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(pipe_ends[0]);
    (void)close(pipe_ends[1]);
    scene->store = driver_open(&scene->driver, NULL);
    assert_true(acknowledged > 10);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), acknowledged);
    scene_check(scene);
}

static void a_backup_that_does_not_fit_leaves_nothing_behind(void **state)
{
    struct scene *scene = *state;
    char path[300];
    scene_enqueue_many(scene, "big-co", 2000);
    (void)snprintf(path, sizeof path, "%s/weir.db.backup", scene->driver.place);
    store_close(scene->store);
    pid_t child = test_fork();
    if (child == 0) {
        struct rlimit limit = {100000, RLIM_INFINITY};
        (void)signal(SIGXFSZ, SIG_IGN);
        scene->store = driver_open(&scene->driver, NULL);
        bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
        enum weir_status status = store_backup(scene->store, path, &scene->error);
        _exit(limited && status != WEIR_OK && access(path, F_OK) != 0 ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    scene->store = driver_open(&scene->driver, NULL);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_full_disk_refuses_and_loses_nothing),
        SCENE_TEST(a_backup_that_does_not_fit_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
