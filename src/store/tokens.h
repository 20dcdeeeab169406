/* The tokens of the HTTP API: rights in workspaces.
 *
 * A token has a name, which the record of acts shows as the actor `token:NAME`, a role, and its workspaces: all of them, or
 * a list. The store keeps the hash of its secret (base/token_secret.h) and never the secret. A token names workspaces by
 * their ids, so that a later workspace of the same name is not open to it. Live tokens have different names; a name is free
 * again once its token is revoked. After its expiry the server refuses a token, which stays until it is revoked.
 *
 * A person who signs in by a provider (server/oidc.h) gets a token for the session: `user:ada@example.com/1`. The record of
 * acts shows its actor as `user:ada@example.com`. Only a session has such a name, so no other token acts as a person.
 * store/store.h includes this file.
 */
#ifndef WEIR_STORE_TOKENS_H
#define WEIR_STORE_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/token_secret.h"
#include "weir/status.h"

struct store;

enum {
    TOKEN_NAME_MAX = 64,         /* bytes of UTF-8 */
    TOKENS_MOST = 10000,         /* of a store, without the revoked ones */
    TOKEN_WORKSPACES_MOST = 100, /* of one token */
    TOKENS_USED_MOST = 1000,     /* of one call */
    SESSIONS_DROPPED_MOST = 100,
    TOKEN_BODY_BYTES_MOST = 16 * 1024 * 1024, /* the largest body that a server takes */
    TOKEN_RATE_MOST = 1000000                 /* requests per second */
};
/* Begins the name of a session. The part behind its last slash tells the sessions of a person apart. */
#define TOKEN_PERSON "user:"
/* The time of the last use is written again after this long. */
#define TOKEN_USE_US (60 * MICROSECONDS_PER_SECOND)

/* Each role may do all that the roles before it may do. */
enum token_role {
    TOKEN_READ,    /* lists, shows, counts */
    TOKEN_ENQUEUE, /* also enqueues */
    TOKEN_OPERATE, /* also acts on executions, and pauses */
    TOKEN_ADMIN    /* also changes settings and workflows */
};
enum { TOKEN_ROLE_COUNT = TOKEN_ADMIN + 1 };
/* "read". */
const char *token_role_name(enum token_role role);
/* False: no role has this name. */
bool token_role_parse(const char *name, enum token_role *ret_role);

struct token_request {
    const char *name;
    unsigned char hash[TOKEN_HASH_BYTES]; /* of the secret */
    enum token_role role;
    bool has_all_workspaces; /* else those that follow */
    const char *const *workspaces;
    size_t workspace_count;
    int64_t expires_at_us;  /* store time; 0 = never */
    int64_t max_body_bytes; /* of one request; 0 = the limits of the server alone */
    int64_t rate;           /* requests per second; 0 = the limit of the server alone */
    /* Of a person. Its name is free again once the session of that name is over. Sessions of all people that are over are
     * deleted, SESSIONS_DROPPED_MOST of them, so that they do not pile up. Workspaces that do not exist are left out, since
     * the list is that of a setting. WEIR_WORKSPACE_NOT_FOUND: none of them exists. */
    bool is_session;
};
/* The same request again has the same answer. WEIR_CONFLICT: a live token has the name. WEIR_WORKSPACE_NOT_FOUND.
 * WEIR_ILLEGAL_STATE: the store has TOKENS_MOST. WEIR_INVALID_ARGUMENT: no workspace, too many, or an expiry that is over.
 * The same for a limit beyond TOKEN_BODY_BYTES_MOST or TOKEN_RATE_MOST, and for a name that begins with TOKEN_PERSON
 * without a session. */
WEIR_MUST_CHECK enum weir_status store_token_create(struct store *store, const struct token_request *request,
                                                    int64_t *ret_id, struct weir_error *error);
/* Refuses what store_token_create() would refuse, and makes nothing. The number of tokens is not checked. */
WEIR_MUST_CHECK enum weir_status store_token_check(struct store *store, const struct token_request *request,
                                                   struct weir_error *error);
/* By its name, or by its id in digits. WEIR_NOT_FOUND: no token that is not revoked has it. */
WEIR_MUST_CHECK enum weir_status store_token_revoke(struct store *store, const char *name_or_id, struct weir_error *error);

struct token {
    int64_t id;
    const char *name;
    unsigned char hash[TOKEN_HASH_BYTES];
    enum token_role role;
    bool has_all_workspaces;
    const char *const *workspaces; /* names of those that exist */
    const int64_t *workspace_ids;  /* at the same places */
    size_t workspace_count;
    int64_t expires_at_us;  /* store time; TIME_NEVER = never */
    int64_t max_body_bytes; /* 0 = the limits of the server alone */
    int64_t rate;           /* requests per second; 0 = the limit of the server alone */
};
struct token_set {
    struct token *tokens; /* neither revoked nor expired, by their ids */
    size_t count;
    bool has_had_tokens; /* also when all of them are revoked or expired */
    int64_t now_us;      /* store time */
};
/* All tokens that a server may accept; in the arena. */
WEIR_MUST_CHECK enum weir_status store_tokens_read(struct store *store, struct arena *arena, struct token_set *ret_set,
                                                   struct weir_error *error);
/* These tokens were used now. A time that is less than TOKEN_USE_US old stays. At most TOKENS_USED_MOST. */
WEIR_MUST_CHECK enum weir_status store_tokens_used(struct store *store, const int64_t *ids, size_t count,
                                                   struct weir_error *error);

/* Whether the execution belongs to one of these workspaces, in the queue or in the history. A whole id in any case. One of
 * another workspace takes as long as a missing one. */
WEIR_MUST_CHECK enum weir_status store_find_in_workspaces(struct store *store, const char *id,
                                                          const char *const *workspaces, size_t count, bool *ret_is_there,
                                                          struct weir_error *error);

#endif
