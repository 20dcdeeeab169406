#include "daemon.h"

#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void daemon_find_binary(char *to, size_t size)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    BENCH_CHECK(length > 0);
    self[length] = '\0';
    (void)snprintf(to, size, "%s/weir", dirname(dirname(self)));
    BENCH_CHECK(access(to, X_OK) == 0);
}

pid_t daemon_spawn(const char *const *words, const char *output)
{
    pid_t child = 0;
    posix_spawn_file_actions_t actions;
    BENCH_CHECK(posix_spawn_file_actions_init(&actions) == 0);
    BENCH_CHECK(posix_spawn_file_actions_addopen(&actions, 1, output, O_CREAT | O_TRUNC | O_WRONLY, 0600) == 0);
    BENCH_CHECK(posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0);
    int failed = posix_spawnp(&child, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed == 0 ? child : -1;
}

bool daemon_await_exit(pid_t child)
{
    int how = 0;
    BENCH_CHECK(waitpid(child, &how, 0) == child);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

void daemon_serve(struct bench *bench, const char *binary, const char *url, struct daemon *daemon)
{
    const char *const words[] = {binary, "serve", "--store", url, NULL};
    struct stat facts = {0};
    (void)snprintf(daemon->output, sizeof daemon->output, "%s/serve.log", bench->folder);
    (void)unlink(daemon->output);
    double began = bench_now();
    daemon->child = daemon_spawn(words, daemon->output);
    BENCH_CHECK(daemon->child > 0);
    daemon->figures = bench->figures;
    daemon->figures->daemon = daemon->child;
    while (stat(daemon->output, &facts) != 0 || facts.st_size == 0) {
        BENCH_CHECK(bench_now() < began + 60 && waitpid(daemon->child, NULL, WNOHANG) == 0);
        bench_pause(0.0002);
    }
    daemon->ready_ms = (bench_now() - began) * 1000;
}

void daemon_serve_http(struct bench *bench, const char *url, int port, struct daemon *daemon)
{
    char binary[DAEMON_PATH_MAX];
    char listen[64];
    daemon_find_binary(binary, sizeof binary);
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    BENCH_CHECK(setenv("WEIR_HTTP_LISTEN", listen, 1) == 0);
    daemon_serve(bench, binary, url, daemon);
    BENCH_CHECK(unsetenv("WEIR_HTTP_LISTEN") == 0);
}

void daemon_stop(struct daemon *daemon)
{
    BENCH_CHECK(kill(daemon->child, SIGTERM) == 0);
    BENCH_CHECK(daemon_await_exit(daemon->child));
    daemon->figures->daemon = 0;
}

double daemon_status_mib(const struct daemon *daemon, const char *field)
{
    char path[64];
    char line[256];
    double kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)daemon->child);
    FILE *file = fopen(path, "r");
    BENCH_CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            kib = strtod(line + strlen(field) + 1, NULL);
        }
    }
    (void)fclose(file);
    return kib / 1024;
}
