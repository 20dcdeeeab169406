/* The rights of callers: the tokens of the store in memory.
 *
 * The set is read from the store about once a second, and once more, at a bounded rate, when a token is not in it. A
 * look-up makes no call of the store. A revoked, an expired and an unknown token are the same: none is in the set. While
 * the store does not answer, the last set counts for ACCESS_STALE_US; then nothing is granted.
 *
 *     access_open() -> access_start() -> access_find() ... -> access_close()
 *
 * Threads: any, from access_start() on.
 */
#ifndef WEIR_SERVER_ACCESS_H
#define WEIR_SERVER_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"
#include "store/store.h"
#include "weir/status.h"

/* Between two reads of the set. */
#define ACCESS_REFRESH_SECONDS 1
/* Reads because of tokens that are not in the set: so many at once, and then one in each of these times. */
#define ACCESS_MISS_US (200 * MICROSECONDS_PER_MS)
enum { ACCESS_MISSES_MOST = 5 };
/* The age up to which a set counts. */
#define ACCESS_STALE_US (60 * MICROSECONDS_PER_SECOND)
/* Refused attempts of one address: so many at once, and then one in each of these times. */
#define ACCESS_FAILURE_US (3 * MICROSECONDS_PER_SECOND)
enum { ACCESS_FAILURES_MOST = 20 };

/* A caller. */
struct principal {
    int64_t token_id;
    const char *name; /* of the token */
    enum token_role role;
    bool has_all_workspaces;
    const char *const *workspaces;
    const int64_t *workspace_ids; /* at the same places */
    size_t workspace_count;
    int64_t expires_at_us;  /* store time; TIME_NEVER = never */
    int64_t max_body_bytes; /* 0 = the limits of the server alone */
};

struct access_options {
    const struct clock *clock; /* NULL = the machine's */
    bool is_anonymous;         /* this machine needs no token, although there are some */
    bool is_closed;            /* else it needs one, although there are none: people sign in */
    int64_t rate;              /* requests per second of one token; 0 = any. A smaller one of the token itself counts */
};

enum access_answer {
    ACCESS_GRANTED,
    ACCESS_UNKNOWN,  /* no token of the set has this secret */
    ACCESS_TOO_FAST, /* more requests than options->rate, or than its own rate */
    ACCESS_STALE,    /* the set is too old */
    ACCESS_NO_MEMORY
};

struct access;

WEIR_MUST_CHECK enum weir_status access_open(const struct access_options *options, struct access **ret_access,
                                             struct weir_error *error);
/* Reads the set with `store`, and starts the thread that keeps it fresh with a handle of its own. */
WEIR_MUST_CHECK enum weir_status access_start(struct access *access, const struct store *store, struct weir_error *error);
/* Ends the thread. Takes NULL. */
void access_close(struct access *access);

/* Reads the set. */
WEIR_MUST_CHECK enum weir_status access_refresh(struct access *access, struct store *store, struct weir_error *error);
/* Reads the set because of a token that is not in it, unless that was done too often. Whether it was read. */
bool access_refresh_after_miss(struct access *access, struct store *store);
/* Writes the uses that the store does not have yet. */
WEIR_MUST_CHECK enum weir_status access_write_uses(struct access *access, struct store *store, struct weir_error *error);

/* The secret of the field Authorization, "Bearer SECRET"; NULL: it is another scheme. */
const char *access_bearer_secret(const char *authorization);
/* Whether a request must show a token. is_of_machine: only a process of this machine can have sent it. */
bool access_needs_token(struct access *access, bool is_of_machine);
/* Whether anybody of another machine can be let in, now or later: the store has had a token, also one that has ended, or
 * people sign in. */
bool access_admits_others(struct access *access);
/* Looks the secret up, and notes its use. The texts of *ret_principal are in the arena. *ret_retry_after_s is set when it
 * is too fast; NULL: the request does not count. */
enum access_answer access_find(struct access *access, const char *secret, struct arena *arena,
                               struct principal *ret_principal, int *ret_retry_after_s);
/* The same for a request that was granted before and has waited: no further one counts. `workspace_id`: it needs this
 * workspace, which may have been deleted meanwhile; 0 = none. ACCESS_GRANTED, ACCESS_UNKNOWN, ACCESS_STALE. */
enum access_answer access_find_again(struct access *access, const char *secret, int64_t workspace_id);
/* Counts a refused attempt of an address. True: it has made too many; *ret_retry_after_s is set. */
bool access_count_failure(struct access *access, const struct sockaddr *address, int *ret_retry_after_s);
/* Whether a further one would be too many. It counts nothing. */
bool access_has_failed(struct access *access, const struct sockaddr *address, int *ret_retry_after_s);

/* `principal` NULL: nobody had to show a token, so everything is allowed. */
bool access_has_role(const struct principal *principal, enum token_role role);
bool access_has_all_workspaces(const struct principal *principal);
/* False: the workspace is to be treated as a missing one. NULL: a request that names none. */
bool access_has_workspace(const struct principal *principal, const char *workspace);
/* The same by its id, which a rename does not change. */
bool access_has_workspace_id(const struct principal *principal, int64_t id);
/* The id of a workspace to which the principal is limited; 0: it is limited to none. access_has_workspace() is true. */
int64_t access_workspace_id(const struct principal *principal, const char *workspace);

#endif
