/* A PostgreSQL server of a test program's own: made with initdb in a folder of its own, reached by a socket in that
 * folder, gone when the program ends in any way: a guard process waits for that. As root it runs as another user.
 *
 * It is the newest server of the Debian packages, or the one whose programs are in the folder WEIR_POSTGRES_PROGRAMS
 * (`./dev check versions` tests other versions that way); as root, a folder that the other user may enter.
 *
 * Everything asserts; the server's log is shown when it does not start. Threads: the main one. */
#ifndef WEIR_TESTS_SUPPORT_POSTGRES_SERVER_H
#define WEIR_TESTS_SUPPORT_POSTGRES_SERVER_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct postgres_server {
    char folder[64];    /* holds data/, log and the socket */
    char programs[128]; /* the server's bin/ */
    int port;           /* of the socket's name; of 127.0.0.1 as well when `tcp` */
    bool tcp;
    pid_t pid; /* of the postmaster; 0 = not running */
    pid_t guard;
    int guard_fd;
    const char *settings; /* see postgres_server_open() */
};

/* Makes and starts it. `settings` is appended to postgresql.conf ("fsync = off\n"); NULL = PostgreSQL's own, with fsync on.
 * `tcp`: listen on 127.0.0.1 too.
 * Its folder is in memory where there is room, else below /tmp: a disk takes many times as long to make the thousand files
 * of a cluster and the three hundred of each database. */
void postgres_server_open(struct postgres_server *server, const char *settings, bool tcp);
/* The same in a folder below `parent`, for data that must be on a disk; the server's user must be able to enter it. */
void postgres_server_open_below(struct postgres_server *server, const char *parent, const char *settings, bool tcp);
/* Whether the server's programs are there. */
bool postgres_server_is_installed(void);
/* Also called at exit. Takes a closed one. */
void postgres_server_close(struct postgres_server *server);

/* The URL of a database by the socket, as the superuser "weir". */
void postgres_server_url(const struct postgres_server *server, const char *database, char *to, size_t size);
/* A connection of the test's own to the database "postgres"; the caller ends it. */
PGconn *postgres_server_connect(const struct postgres_server *server);
/* Starts a stopped one and waits until it answers. */
void postgres_server_start(struct postgres_server *server);
/* Sends `signal` to the postmaster and waits for its end: SIGTERM smart, SIGINT fast, SIGQUIT immediate, SIGKILL. */
void postgres_server_stop(struct postgres_server *server, int signal);
/* Sends a signal to the postmaster and every server process (SIGSTOP, SIGCONT). */
void postgres_server_signal_all(const struct postgres_server *server, int signal);
/* Runs SQL as the superuser on a connection of its own; the first column of the first row, or "" (static buffer). */
const char *postgres_server_ask(const struct postgres_server *server, const char *database, const char *sql);
/* Ends the connections of this application_name that are there now, and waits until they are gone. */
void postgres_server_end_connections(const struct postgres_server *server, const char *application);
/* Runs another program beside the server, as its user, with its output in the same log; it dies with the test program. */
pid_t postgres_server_run(const struct postgres_server *server, char *const arguments[]);
/* A free port of 127.0.0.1, which no other test takes while this program lives. */
int postgres_server_free_port(void);
/* Replaces pg_hba.conf and reloads. */
void postgres_server_allow(const struct postgres_server *server, const char *hba);

#endif
