/* Calls of the REST API of a weir server (docs/http.md) by libcurl: one at a time, on a connection that stays open.
 *
 *     remote_client_target() -> remote_client_argument() ... -> remote_client_body() -> remote_client_send()
 *
 * A caller with a libcurl multi handle of its own has remote_client_begin() and remote_client_end() in place of the last
 * one.
 *
 * A refusal of the server has the status, the message and the hint that the server's own call had: its `code` is the name
 * of the status. Failures between the two become WEIR_STORE_UNREACHABLE, or WEIR_COMMIT_UNKNOWN once a request that changes
 * something has left.
 *
 * Owner: remote_client_open() .. remote_client_close(). Threads: one at a time.
 */
#ifndef WEIR_REMOTE_CLIENT_H
#define WEIR_REMOTE_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/libcurl.h"
#include "base/text.h"
#include "weir/status.h"

enum {
    CLIENT_URL_BYTES_MAX = 512, /* of all servers */
    CLIENT_SERVERS_MAX = 16,
    CLIENT_CODE_MAX = 64,
    CLIENT_TARGET_BYTES_MAX = 14 * 1024, /* a server takes a head of 16 KiB */
    CLIENT_BODY_BYTES_MAX = 16 * 1024 * 1024,
    CLIENT_ANSWER_BYTES_MAX = 20 * 1024 * 1024
};
/* Of a call that may read or write much, like a check of the whole store. */
#define CLIENT_LONG_DEADLINE_US (10 * 60 * MICROSECONDS_PER_SECOND)

struct remote_client {
    CURL *easy;
    char url[CLIENT_URL_BYTES_MAX]; /* as it was given */
    size_t server_count;
    size_t server;                          /* the present one */
    char base[CLIENT_URL_BYTES_MAX];        /* its "https://host:port", without a slash at the end */
    char socket_path[CLIENT_URL_BYTES_MAX]; /* of "unix:PATH"; else "" */
    char *token_file;                       /* bearer_token.h; NULL = no token */
    char *ca_file;                          /* NULL = those of the system */
    bool is_local;                          /* what is sent stays on this machine */
    bool is_short_of_memory;                /* a part of the request is missing */
    bool is_target_too_long;                /* likewise */
    struct text target;                     /* path and query */
    struct text address;
    struct text body;
    struct text answer;
    struct curl_slist *headers; /* of the request under way */
    char problem[CURL_ERROR_SIZE];
    long number;                /* the HTTP status of the last answer; 0 = none came */
    char code[CLIENT_CODE_MAX]; /* of its problem; else "" */
};

/* The effect of a call on the server. It decides about a call without an answer. */
enum client_effect {
    CLIENT_READS,
    CLIENT_CHANGES,
    CLIENT_CHANGES_ONCE /* it changes nothing when it comes again */
};

struct remote_client_call {
    const char *method;
    enum client_effect effect;
    const char *body_type; /* NULL = application/json */
    const char *actor;     /* NULL = none */
    const char *reason;
    int64_t deadline_us; /* of all tries together */
    int64_t connect_us;  /* the most for a connection; 0 = five seconds */
};

/* `url`: "http://HOST:PORT", "https://...", "unix:PATH". Several servers of one store: "https://HOST:PORT,HOST:PORT". Makes
 * no connection. `token_file` NULL: the variables WEIR_TOKEN_FILE and WEIR_TOKEN; `ca_file` NULL: WEIR_CA_FILE.
 * WEIR_INVALID_ARGUMENT: it is no such URL; WEIR_INVALID_CONFIG: there is no libcurl; WEIR_OUT_OF_MEMORY. After an error
 * remote_client_close() frees the parts. */
WEIR_MUST_CHECK enum weir_status remote_client_open(struct remote_client *client, const char *url, const char *token_file,
                                                    const char *ca_file, struct weir_error *error);
/* The same server, on a connection of its own. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status remote_client_open_again(const struct remote_client *client,
                                                          struct remote_client *ret_client, struct weir_error *error);
void remote_client_close(struct remote_client *client);
/* Makes server `server` the present one. Between requests. */
void remote_client_choose(struct remote_client *client, size_t server);

/* Begins a request. Each "{}" of `path` stands for the next of `values`, which is encoded. A failed allocation shows in
 * remote_client_send(). */
void remote_client_target(struct remote_client *client, const char *path, const char *const *values);
/* Adds an argument of the query, unless its value is NULL. */
void remote_client_argument(struct remote_client *client, const char *name, const char *value);
void remote_client_number(struct remote_client *client, const char *name, int64_t value);
/* Sets the body, of which it takes a reference over; NULL counts as no memory. */
void remote_client_body(struct remote_client *client, json_t *value);
/* The body in parts. */
void remote_client_add_body(struct remote_client *client, const char *bytes, size_t length);
/* A JSON string. */
void remote_client_add_body_text(struct remote_client *client, const char *string);

/* "KEY":"VALUE", behind a comma if it is not the first member of its object; nothing when the value is NULL. */
void remote_client_add_member(struct remote_client *client, const char *key, const char *value);
/* The same with a value that is JSON already. */
void remote_client_add_json(struct remote_client *client, const char *key, const char *json);

/* Sends the request. If a server cannot be connected to, the next one gets it. *ret_answer: the body of an answer 2xx, to
 * be released by the caller; may be NULL. */
WEIR_MUST_CHECK enum weir_status remote_client_send(struct remote_client *client, const struct remote_client_call *call,
                                                    json_t **ret_answer, struct weir_error *error);
/* The two halves of a send to the present server alone: the handle is ready for libcurl; libcurl has ended with `code`.
 * Each begin that succeeds needs one end. `call` must be the same. */
WEIR_MUST_CHECK enum weir_status remote_client_begin(struct remote_client *client, const struct remote_client_call *call,
                                                     struct weir_error *error);
WEIR_MUST_CHECK enum weir_status remote_client_end(struct remote_client *client, const struct remote_client_call *call,
                                                   CURLcode code, json_t **ret_answer, struct weir_error *error);
/* The refusal of a problem or of a part of an answer: its members "code", "detail" and "hint" become `error`. WEIR_OK: it
 * is none of a call of the store, and `error` is unchanged. */
enum weir_status remote_client_read_refusal(const json_t *problem, struct weir_error *error);

#endif
