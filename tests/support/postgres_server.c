/* Starts a PostgreSQL server for one test program and ends it with the program.
 *
 *   1. Find the programs of the server: the folder that is named, else the newest installed version.
 *   2. Make a cluster in a folder of its own, as another user when the test runs as root.
 *   3. Start a guard process that holds a pipe. When the test program ends in any way, the pipe ends; the guard stops the
 *      server and removes the folder. So no server outlives its test.
 *   4. Start the server on a socket in that folder, and wait until it accepts connections.
 *
 * Only the main thread may use it. Everything asserts.
 */
#include "support/postgres_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

#define START_DEADLINE_US (60 * MICROSECONDS_PER_SECOND)
#define INITDB_PATTERN "/usr/lib/postgresql/*/bin/initdb"
#define PROGRAMS_VARIABLE "WEIR_POSTGRES_PROGRAMS"
#define TEMPLATE_VARIABLE "WEIR_POSTGRES_TEMPLATE"
#define DISK "/tmp"
#define MEMORY "/dev/shm"
#define MEMORY_LEAST_BYTES ((uint64_t)2 << 30) /* other servers work beside this one */
enum { SERVERS_MOST = 4, PATH_SIZE = 256, ANSWER_SIZE = 4096 };
/* Below the ports that the system assigns. */
enum { PORT_FIRST = 15000, PORTS = 17000 };

static struct postgres_server *servers[SERVERS_MOST];
static pid_t owner; /* the process that made them; its children leave them alone at exit */

/* --- processes --- */

static void nap(void)
{
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 10 * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
}

/* The server refuses to run as root. */
static void become_another_user(void)
{
    const struct passwd *user = getpwnam("postgres");
    user = user == NULL ? getpwnam("nobody") : user;
    if (geteuid() == 0 && (user == NULL || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) {
        _exit(126);
    }
}

/* `death`: the signal that ends it if even the guard is killed. */
static pid_t start_program(const struct postgres_server *server, char *const arguments[], int death)
{
    char log[PATH_SIZE];
    (void)snprintf(log, sizeof log, "%s/log", server->folder);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        become_another_user();
        (void)prctl(PR_SET_PDEATHSIG, death);
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(server->folder) != 0) {
            _exit(126);
        }
        (void)setsid(); /* a terminal's ^C is for the test; its guard stops the server */
        (void)setenv("LC_ALL", "C", 1);
        (void)execv(arguments[0], arguments);
        _exit(127);
    }
    return pid;
}

static void show_log(const struct postgres_server *server)
{
    char line[PATH_SIZE];
    (void)snprintf(line, sizeof line, "%s/log", server->folder);
    FILE *log = fopen(line, "r");
    while (log != NULL && fgets(line, sizeof line, log) != NULL) {
        print_error("%s", line);
    }
    if (log != NULL) {
        (void)fclose(log);
    }
}

static void run_program(const struct postgres_server *server, char *const arguments[])
{
    int status = 0;
    pid_t pid = start_program(server, arguments, SIGQUIT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        show_log(server);
        fail_msg("%s failed", arguments[0]);
    }
}

/* --- the guard --- */

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    return remove(path);
}

static pid_t running_pid(const char *folder)
{
    char path[PATH_SIZE];
    int pid = 0;
    (void)snprintf(path, sizeof path, "%s/data/postmaster.pid", folder);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%d", &pid) != 1) {
            pid = 0;
        }
        (void)fclose(file);
    }
    return pid;
}

static void end_server(const char *folder)
{
    pid_t pid = running_pid(folder);
    if (pid > 0) {
        (void)kill(pid, SIGCONT);
        (void)kill(pid, SIGQUIT);
    }
    for (int i = 0; i < 500 && pid > 0 && kill(pid, 0) == 0; i++) {
        nap();
    }
}

/* Waits for the end of the test program: then no process has the other end of the pipe. */
static pid_t start_guard(const char *folder, int *ret_fd)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[1]);
        (void)setsid();
        for (int fd = 0; fd < 3; fd++) {
            (void)close(fd); /* the reader of the test's output must not wait for the guard */
        }
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR) {
        }
        end_server(folder);
        (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        _exit(0);
    }
    (void)close(ends[0]);
    *ret_fd = ends[1];
    return pid;
}

/* --- making one --- */

/* A folder that is named is the only one that counts: tests of another version must not go to the installed server. */
static bool find_initdb(char *to, size_t size)
{
    const char *named = getenv(PROGRAMS_VARIABLE);
    if (named != NULL) {
        int length = snprintf(to, size, "%s/initdb", named);
        return length > 0 && (size_t)length < size && access(to, X_OK) == 0;
    }
    glob_t found = {0};
    bool is_there = glob(INITDB_PATTERN, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (is_there) {
        (void)snprintf(to, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
    }
    globfree(&found);
    return is_there;
}

static void find_programs(struct postgres_server *server)
{
    if (!find_initdb(server->programs, sizeof server->programs)) {
        fail_msg(
            "there is no PostgreSQL server: install the package postgresql (./dev test does), or let " PROGRAMS_VARIABLE
            " name the folder of its initdb");
    }
    *strrchr(server->programs, '/') = '\0';
}

/* Reserves a port among the tests by a name that the kernel keeps as long as this program lives; -1 = it is taken.
 * tests/end_to_end/ports.py has the same names. */
static int reserve_port(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "weir-test-port-%d", port);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (bind(fd, (struct sockaddr *)&name, size) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static bool port_is_free(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return is_free;
}

int postgres_server_free_port(void)
{
    static int taken;
    int start = (int)(getpid() % PORTS) * 97 + taken++;
    for (int i = 0; i < PORTS; i++) {
        int port = PORT_FIRST + (start + i) % PORTS;
        int fd = reserve_port(port);
        if (fd >= 0 && port_is_free(port)) {
            return port; /* the reservation stays open */
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    fail_msg("there is no free port");
    return 0;
}

/* A cluster that initdb has made for this run of the tests (tests/end_to_end/postgres_template.py), by the same programs.
 */
static bool find_template(const struct postgres_server *server, char *to, size_t size)
{
    char path[PATH_SIZE];
    char programs[PATH_SIZE] = "";
    const char *folder = getenv(TEMPLATE_VARIABLE);
    if (folder == NULL || folder[0] == '\0') {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/programs", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(programs, sizeof programs, file) == NULL) {
        fail_msg(TEMPLATE_VARIABLE ": %s cannot be read", path);
    }
    (void)fclose(file);
    (void)snprintf(to, size, "%s/weir", folder);
    return strcmp(programs, server->programs) == 0;
}

static void make_cluster(struct postgres_server *server)
{
    char program[PATH_SIZE];
    char data[PATH_SIZE];
    char template[PATH_SIZE];
    (void)snprintf(program, sizeof program, "%s/initdb", server->programs);
    (void)snprintf(data, sizeof data, "%s/data", server->folder);
    if (find_template(server, template, sizeof template)) {
        /* By the server's user, so that the files belong to it; sparse files (the log) stay sparse. */
        char *const copy[] = {"/bin/cp", "-r", "--preserve=mode", template, data, NULL};
        run_program(server, copy);
        return;
    }
    char *const arguments[] = {program,     "-D", data, "-U", "weir", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
                               "--no-sync", NULL};
    run_program(server, arguments);
}

static int major_version(const struct postgres_server *server)
{
    char path[PATH_SIZE];
    int version = 0;
    (void)snprintf(path, sizeof path, "%s/data/PG_VERSION", server->folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &version), 1);
    (void)fclose(file);
    return version;
}

static void write_settings(const struct postgres_server *server)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/data/postgresql.conf", server->folder);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    (void)fprintf(file, "\nport = %d\nunix_socket_directories = '%s'\nlisten_addresses = '%s'\n", server->port,
                  server->folder, server->tcp ? "127.0.0.1" : "");
    /* After a crash the server makes its whole folder durable, file by file; in one call that is as durable and quick. */
    (void)fprintf(file, "%s", major_version(server) >= 14 ? "recovery_init_sync_method = syncfs\n" : "");
    (void)fprintf(file, "max_connections = 100\nshared_buffers = 64MB\nlog_min_messages = warning\n%s\n",
                  server->settings == NULL ? "" : server->settings);
    assert_int_equal(fclose(file), 0);
}

static void close_all(void)
{
    for (int i = 0; i < SERVERS_MOST && getpid() == owner; i++) {
        if (servers[i] != NULL) {
            postgres_server_close(servers[i]);
        }
    }
}

static void note_server(struct postgres_server *server)
{
    if (owner != getpid()) {
        owner = getpid();
        (void)atexit(close_all);
    }
    for (int i = 0; i < SERVERS_MOST; i++) {
        if (servers[i] == NULL) {
            servers[i] = server;
            return;
        }
    }
    fail_msg("more than %d servers", SERVERS_MOST);
}

bool postgres_server_is_installed(void)
{
    char program[PATH_SIZE];
    return find_initdb(program, sizeof program);
}

/* tests/end_to_end/postgres_server.py has the same. */
static const char *folder_for_files(void)
{
    struct statvfs facts;
    bool has_room = access(MEMORY, W_OK | X_OK) == 0 && statvfs(MEMORY, &facts) == 0 &&
                    (uint64_t)facts.f_bavail * facts.f_frsize >= MEMORY_LEAST_BYTES;
    return has_room ? MEMORY : DISK;
}

void postgres_server_open(struct postgres_server *server, const char *settings, bool tcp)
{
    postgres_server_open_below(server, folder_for_files(), settings, tcp);
}

void postgres_server_open_below(struct postgres_server *server, const char *parent, const char *settings, bool tcp)
{
    memset(server, 0, sizeof *server);
    server->settings = settings;
    server->tcp = tcp;
    find_programs(server);
    int length = snprintf(server->folder, sizeof server->folder, "%s/weir-pg-XXXXXX", parent);
    if (length < 0 || (size_t)length >= sizeof server->folder) {
        fail_msg("the name of the folder is too long for a server's socket: %s", parent);
    }
    assert_non_null(mkdtemp(server->folder));
    server->guard = start_guard(server->folder, &server->guard_fd);
    note_server(server);
    const struct passwd *user = getpwnam("postgres");
    user = user == NULL ? getpwnam("nobody") : user;
    if (geteuid() == 0) {
        assert_non_null(user);
        assert_int_equal(chown(server->folder, user->pw_uid, user->pw_gid), 0);
    }
    server->port = postgres_server_free_port();
    make_cluster(server);
    write_settings(server);
    postgres_server_start(server);
}

void postgres_server_close(struct postgres_server *server)
{
    if (server->guard == 0) {
        return;
    }
    if (server->pid > 0) {
        postgres_server_signal_all(server, SIGCONT);
        postgres_server_stop(server, SIGQUIT);
    }
    (void)close(server->guard_fd);
    (void)waitpid(server->guard, NULL, 0);
    for (int i = 0; i < SERVERS_MOST; i++) {
        if (servers[i] == server) {
            servers[i] = NULL;
        }
    }
    server->guard = 0;
}

/* --- running one --- */

static void conninfo(const struct postgres_server *server, const char *database, char *to, size_t size)
{
    (void)snprintf(to, size,
                   "host=%s port=%d user=weir dbname=%s connect_timeout=10"
                   " options='-c client_min_messages=warning'",
                   server->folder, server->port, database);
}

void postgres_server_start(struct postgres_server *server)
{
    char program[PATH_SIZE];
    char data[PATH_SIZE];
    char place[PATH_SIZE];
    int64_t until_us = clock_boot(clock_system()) + START_DEADLINE_US;
    (void)snprintf(program, sizeof program, "%s/postgres", server->programs);
    (void)snprintf(data, sizeof data, "%s/data", server->folder);
    char *const arguments[] = {program, "-D", data, NULL};
    server->pid = start_program(server, arguments, SIGQUIT);
    conninfo(server, "postgres", place, sizeof place);
    while (PQping(place) != PQPING_OK) {
        if (waitpid(server->pid, NULL, WNOHANG) != 0 || clock_boot(clock_system()) > until_us) {
            show_log(server);
            fail_msg("the server does not start");
        }
        nap();
    }
}

void postgres_server_stop(struct postgres_server *server, int signal)
{
    assert_true(server->pid > 0);
    assert_int_equal(kill(server->pid, signal), 0);
    assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
    server->pid = 0;
}

/* The children of the postmaster, from /proc: field 4 of stat is the parent. */
static bool is_child_of(const char *name, pid_t parent)
{
    char path[PATH_SIZE + 16];
    char line[PATH_SIZE];
    int found = 0;
    (void)snprintf(path, sizeof path, "/proc/%s/stat", name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    const char *after = fgets(line, sizeof line, file) == NULL ? NULL : strrchr(line, ')');
    (void)fclose(file);
    return after != NULL && sscanf(after + 1, " %*c %d", &found) == 1 && found == parent;
}

void postgres_server_signal_all(const struct postgres_server *server, int signal)
{
    /* First the postmaster, so that it makes no new ones; when it goes on, last. */
    if (signal != SIGCONT) {
        assert_int_equal(kill(server->pid, signal), 0);
    }
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (const struct dirent *entry = readdir(processes); entry != NULL; entry = readdir(processes)) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_child_of(entry->d_name, server->pid)) {
            (void)kill((pid_t)strtol(entry->d_name, NULL, 10), signal);
        }
    }
    (void)closedir(processes);
    if (signal == SIGCONT) {
        (void)kill(server->pid, signal);
    }
}

pid_t postgres_server_run(const struct postgres_server *server, char *const arguments[])
{
    return start_program(server, arguments, SIGKILL); /* PgBouncer ignores SIGQUIT */
}

void postgres_server_url(const struct postgres_server *server, const char *database, char *to, size_t size)
{
    int length = snprintf(to, size, "postgres://weir@/%s?host=%s&port=%d", database, server->folder, server->port);
    assert_true(length > 0 && (size_t)length < size);
}

PGconn *postgres_server_connect(const struct postgres_server *server)
{
    char url[PATH_SIZE];
    postgres_server_url(server, "postgres", url, sizeof url);
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK) {
        fail_msg("%s", PQerrorMessage(connection));
    }
    return connection;
}

const char *postgres_server_ask(const struct postgres_server *server, const char *database, const char *sql)
{
    static char answer[ANSWER_SIZE];
    char place[PATH_SIZE];
    conninfo(server, database, place, sizeof place);
    PGconn *connection = PQconnectdb(place);
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        print_error("%s: %s", sql, PQerrorMessage(connection));
        fail_msg("the server refused");
    }
    (void)snprintf(answer, sizeof answer, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(connection);
    return answer;
}

void postgres_server_end_connections(const struct postgres_server *server, const char *application)
{
    char sql[PATH_SIZE + ANSWER_SIZE];
    int64_t until_us = clock_boot(clock_system()) + START_DEADLINE_US;
    (void)snprintf(sql, sizeof sql,
                   "WITH found AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE application_name = '%s')"
                   " SELECT array_agg(pid) FROM found WHERE pg_terminate_backend(pid)",
                   application);
    char *pids = strdup(postgres_server_ask(server, "postgres", sql));
    assert_non_null(pids);
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ('%s'::integer[])",
                   *pids == '\0' ? "{}" : pids);
    free(pids);
    /* The server's own waiting is only there from version 14 on. */
    while (strcmp(postgres_server_ask(server, "postgres", sql), "0") != 0) {
        assert_true(clock_boot(clock_system()) < until_us);
        nap();
    }
}

void postgres_server_allow(const struct postgres_server *server, const char *hba)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/data/pg_hba.conf", server->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(hba, file);
    assert_int_equal(fclose(file), 0);
    (void)postgres_server_ask(server, "postgres", "SELECT pg_reload_conf()");
}
