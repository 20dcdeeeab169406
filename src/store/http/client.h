/* Calls of the REST API of a weir server (docs/http.md) by libcurl: one at a time, on a connection that stays open.
 *
 *     remote_client_target() -> remote_client_argument() ... -> remote_client_body() -> remote_client_send()
 *
 * A refusal of the server has the status, the message and the hint that the server's own call had: its `code` is the name
 * of the status. Failures between the two become WEIR_STORE_UNREACHABLE, or WEIR_COMMIT_UNKNOWN once a request that changes
 * something has left.
 *
 * Owner: remote_client_open() .. remote_client_close(). Threads: one at a time.
 */
#ifndef WEIR_STORE_HTTP_CLIENT_H
#define WEIR_STORE_HTTP_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/libcurl.h"
#include "base/text.h"
#include "store/store.h"

enum {
    CLIENT_URL_BYTES_MAX = 512,
    CLIENT_TARGET_BYTES_MAX = 16 * 1024,
    CLIENT_BODY_BYTES_MAX = 16 * 1024 * 1024,
    CLIENT_ANSWER_BYTES_MAX = 20 * 1024 * 1024
};
/* Of a call that may read or write much, like a check of the whole store. */
#define CLIENT_LONG_DEADLINE_US (10 * 60 * MICROSECONDS_PER_SECOND)

struct remote_client {
    CURL *easy;
    char base[CLIENT_URL_BYTES_MAX];        /* "https://host:port", without a slash at the end */
    char socket_path[CLIENT_URL_BYTES_MAX]; /* of "unix:PATH"; else "" */
    char *token_file;                       /* bearer_token.h; NULL = no token */
    char *ca_file;                          /* NULL = those of the system */
    bool is_local;                          /* what is sent stays on this machine */
    bool is_short_of_memory;                /* a part of the request is missing */
    struct text target;
    struct text body;
    struct text answer;
    char problem[CURL_ERROR_SIZE];
};

/* What follows from a call whose answer is lost. */
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
    int64_t deadline_us;
};

/* `url`: "http://HOST:PORT", "https://...", "unix:PATH". Makes no connection. WEIR_INVALID_ARGUMENT: it is no such URL;
 * WEIR_INVALID_CONFIG: there is no libcurl; WEIR_OUT_OF_MEMORY. After an error remote_client_close() frees the parts. */
WEIR_MUST_CHECK enum weir_status remote_client_open(struct remote_client *client, const char *url, const char *token_file,
                                                    const char *ca_file, struct weir_error *error);
/* The same server, on a connection of its own. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status remote_client_open_again(const struct remote_client *client,
                                                          struct remote_client *ret_client, struct weir_error *error);
void remote_client_close(struct remote_client *client);

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

/* ,"KEY":"VALUE"; nothing when the value is NULL. */
void remote_client_add_member(struct remote_client *client, const char *key, const char *value);

/* Sends the request. *ret_answer: the body of an answer 2xx, to be released by the caller; may be NULL. */
WEIR_MUST_CHECK enum weir_status remote_client_send(struct remote_client *client, const struct remote_client_call *call,
                                                    json_t **ret_answer, struct weir_error *error);
/* The refusal of a problem or of a part of an answer: its members "code", "detail" and "hint" become `error`. WEIR_OK: it
 * is none of a call of the store, and `error` is unchanged. */
enum weir_status remote_client_read_refusal(const json_t *problem, struct weir_error *error);

#endif
