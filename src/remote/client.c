/* One request at a time on an easy handle, whose connection libcurl keeps for the next one.
 *
 * 1. The URL was checked when the client was opened: it has neither a user, a password, a query nor a fragment. A token
 *    comes from a file, and each call has a query of its own. A token leaves this machine by TLS alone.
 * 2. remote_client_begin() sets all options anew: method, deadline, headers with the token, the actor and the reason.
 *    libcurl sends a request again by itself when an old connection ends without an answer. So a change that must not be
 *    made twice has a new connection.
 * 3. libcurl's code decides first: without a connection nothing has happened; later a change may have.
 * 4. Then the status and the body decide. An answer 2xx must be JSON. A problem (RFC 9457) has a status of weir in `code`.
 *    Anything else does not come from a weir: a proxy, or a server of another kind.
 *
 * Redirects are not followed: they would carry the token to another server. No message shows the token. One thread. */
#include "remote/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bearer_token.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/libssl.h"
#include "base/shell_quote.h"

#define CONNECT_TIMEOUT_US (5 * MICROSECONDS_PER_SECOND)
#define HINT_OF_URL "the URL is that of `weir serve --listen`, without a path of its own"

/* --- opening --- */

/* The message does not show the URL: a wrong one may have a password in it. */
static enum weir_status refuse_server_url(const char *reason, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "the URL of the server %s", reason);
    error_hint(error, "for example http://127.0.0.1:7717, https://weir-1:7717,weir-2:7717 or unix:/run/weir/http.sock");
    return WEIR_INVALID_ARGUMENT;
}

/* `host`: "host:port/..." or "[::1]:port". */
static bool host_is_local(const char *host)
{
    size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/,");
    return (length == strlen("localhost") && strncasecmp(host, "localhost", length) == 0) ||
           (length == strlen("[::1]") && strncmp(host, "[::1]", length) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length);
}

void remote_client_choose(struct remote_client *client, size_t server)
{
    INVARIANT(server < client->server_count);
    client->server = server;
    if (client->socket_path[0] != '\0') {
        text_copy(client->base, sizeof client->base, "http://localhost");
        return;
    }
    const char *host = strstr(client->url, "://") + 3;
    int scheme = (int)(host - client->url);
    for (size_t i = 0; i < server; i++) {
        host += strcspn(host, ",") + 1;
    }
    (void)snprintf(client->base, sizeof client->base, "%.*s%.*s", scheme, client->url, (int)strcspn(host, ","), host);
    for (size_t length = strlen(client->base); client->base[length - 1] == '/'; length--) {
        client->base[length - 1] = '\0';
    }
}

/* The hosts of a list share scheme, token and certificates. One of them may have a path, if it is alone. */
static enum weir_status read_server_list(struct remote_client *client, const char *list, struct weir_error *error)
{
    client->is_local = true;
    for (const char *host = list; host != NULL; host = strchr(host, ',') == NULL ? NULL : strchr(host, ',') + 1) {
        if (strchr(",/:", host[0]) != NULL) {
            return refuse_server_url("names no host", error);
        }
        if (++client->server_count > CLIENT_SERVERS_MAX) {
            return refuse_server_url("names more than 16 servers", error);
        }
        client->is_local = client->is_local && host_is_local(host);
    }
    if (client->server_count > 1 && strchr(list, '/') != NULL) {
        return refuse_server_url("has several servers and a path, or a second scheme", error);
    }
    return WEIR_OK;
}

static enum weir_status read_server_url(struct remote_client *client, const char *url, struct weir_error *error)
{
    if (strlen(url) >= CLIENT_URL_BYTES_MAX) {
        return refuse_server_url("is too long", error);
    }
    text_copy(client->url, sizeof client->url, url);
    if (strncmp(url, "unix:", 5) == 0) {
        if (url[5] != '/') {
            return refuse_server_url("needs the whole path of a socket after unix:", error);
        }
        text_copy(client->socket_path, sizeof client->socket_path, url + 5);
        client->server_count = 1;
        client->is_local = true;
        remote_client_choose(client, 0);
        return WEIR_OK;
    }
    const char *host = strstr(url, "://");
    if (host == NULL) {
        return refuse_server_url("names no host", error);
    }
    if (strpbrk(host, "@?# \t\r\n") != NULL) {
        return refuse_server_url("has more than host, port and path; a token comes from http.token_file or WEIR_TOKEN",
                                 error);
    }
    enum weir_status status = read_server_list(client, host + 3, error);
    if (status == WEIR_OK) {
        remote_client_choose(client, 0);
    }
    return status;
}

/* A variable that is empty counts as none. */
static const char *environment_or_null(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* libcurl reads the file of certificates at each connection, and the client its token at each call. */
static enum weir_status open_parts(struct remote_client *client, const char *token_file, const char *ca_file,
                                   struct weir_error *error)
{
    client->target.max = CLIENT_TARGET_BYTES_MAX;
    client->address.max = CLIENT_TARGET_BYTES_MAX + CLIENT_URL_BYTES_MAX;
    client->body.max = CLIENT_BODY_BYTES_MAX;
    client->answer.max = CLIENT_ANSWER_BYTES_MAX;
    client->token_file = token_file == NULL ? NULL : strdup(token_file);
    client->ca_file = ca_file == NULL ? NULL : strdup(ca_file);
    client->easy = curl_easy_init();
    bool is_whole = client->easy != NULL && (client->token_file != NULL || token_file == NULL) &&
                    (client->ca_file != NULL || ca_file == NULL);
    return is_whole ? WEIR_OK : error_out_of_memory(error);
}

enum weir_status remote_client_open(struct remote_client *client, const char *url, const char *token_file,
                                    const char *ca_file, struct weir_error *error)
{
    INVARIANT(client != NULL && url != NULL);
    *client = (struct remote_client){.easy = NULL};
    enum weir_status status = libcurl_load("a server as the store", error);
    status = status == WEIR_OK ? libssl_load(error) : status; /* base64 of logs */
    if (status == WEIR_OK) {
        status = read_server_url(client, url, error);
    }
    if (token_file == NULL) {
        token_file = environment_or_null("WEIR_TOKEN_FILE");
    }
    if (token_file == NULL && environment_or_null("WEIR_TOKEN") != NULL) {
        token_file = "env:WEIR_TOKEN";
    }
    ca_file = ca_file != NULL ? ca_file : environment_or_null("WEIR_CA_FILE");
    if (status == WEIR_OK && token_file != NULL && !client->is_local && strncmp(client->base, "http://", 7) == 0) {
        status = error_set(error, WEIR_INVALID_CONFIG, "a token is not sent over http:// to another machine");
        error_hint(error, "use https://: the token could be read on the way");
    }
    return status == WEIR_OK ? open_parts(client, token_file, ca_file, error) : status;
}

enum weir_status remote_client_open_again(const struct remote_client *client, struct remote_client *ret_client,
                                          struct weir_error *error)
{
    INVARIANT(client != NULL && ret_client != NULL);
    *ret_client = (struct remote_client){.is_local = client->is_local, .server_count = client->server_count};
    text_copy(ret_client->url, sizeof ret_client->url, client->url);
    text_copy(ret_client->socket_path, sizeof ret_client->socket_path, client->socket_path);
    remote_client_choose(ret_client, client->server);
    return open_parts(ret_client, client->token_file, client->ca_file, error);
}

void remote_client_close(struct remote_client *client)
{
    if (client->easy != NULL) {
        curl_easy_cleanup(client->easy);
    }
    free(client->token_file);
    free(client->ca_file);
    if (client->headers != NULL) {
        curl_slist_free_all(client->headers);
    }
    text_close(&client->target);
    text_close(&client->address);
    text_close(&client->body);
    text_close(&client->answer);
}

/* --- the request --- */

/* A target that does not fit is no shortage of memory: the caller has named too much, as in a long filter. */
static void note_target(struct remote_client *client, enum weir_status status)
{
    client->is_short_of_memory = client->is_short_of_memory || status == WEIR_OUT_OF_MEMORY;
    client->is_target_too_long = client->is_target_too_long || (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY);
}

static void add_target(struct remote_client *client, const char *bytes, size_t length)
{
    note_target(client, text_add(&client->target, bytes, length));
}

/* A name may have a slash, a percent sign or a plus. */
static void add_encoded_value(struct remote_client *client, const char *value)
{
    note_target(client, text_add_url_value(&client->target, value, strlen(value)));
}

void remote_client_target(struct remote_client *client, const char *path, const char *const *values)
{
    client->is_short_of_memory = false;
    client->is_target_too_long = false;
    text_clear(&client->target);
    text_clear(&client->body);
    for (const char *mark = strstr(path, "{}"); mark != NULL; mark = strstr(path, "{}")) {
        add_target(client, path, (size_t)(mark - path));
        add_encoded_value(client, *values++);
        path = mark + 2;
    }
    add_target(client, path, strlen(path));
}

void remote_client_argument(struct remote_client *client, const char *name, const char *value)
{
    if (value != NULL && client->target.data != NULL) {
        add_target(client, strchr(client->target.data, '?') == NULL ? "?" : "&", 1);
        add_target(client, name, strlen(name));
        add_target(client, "=", 1);
        add_encoded_value(client, value);
    }
}

/* In decimal. */
void remote_client_number(struct remote_client *client, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    remote_client_argument(client, name, text);
}

void remote_client_add_body(struct remote_client *client, const char *bytes, size_t length)
{
    client->is_short_of_memory = client->is_short_of_memory || text_add(&client->body, bytes, length) != WEIR_OK;
}

void remote_client_body(struct remote_client *client, json_t *value)
{
    client->is_short_of_memory =
        client->is_short_of_memory || value == NULL || json_write(value, &client->body, NULL) != WEIR_OK;
    json_decref(value);
}

/* With quotes and escapes. */
void remote_client_add_body_text(struct remote_client *client, const char *string)
{
    remote_client_body(client, json_string(string));
}

static void add_member_key(struct remote_client *client, const char *key)
{
    const struct text *body = &client->body;
    if (body->length > 0 && body->data[body->length - 1] != '{') {
        remote_client_add_body(client, ",", 1);
    }
    remote_client_add_body_text(client, key);
    remote_client_add_body(client, ":", 1);
}

void remote_client_add_member(struct remote_client *client, const char *key, const char *value)
{
    if (value != NULL) {
        add_member_key(client, key);
        remote_client_add_body_text(client, value);
    }
}

void remote_client_add_json(struct remote_client *client, const char *key, const char *json)
{
    if (json != NULL) {
        add_member_key(client, key);
        remote_client_add_body(client, json, strlen(json));
    }
}

/* --- the headers --- */

/* Appends "NAME: VALUE" to the list. False: no memory; the list stays as it was. */
static bool add_header(struct curl_slist **headers, const char *name, const char *value)
{
    struct text line = {.max = BEARER_TOKEN_BYTES_MAX + 256, .wipes = true};
    struct curl_slist *longer =
        text_format(&line, "%s: %s", name, value) == WEIR_OK ? curl_slist_append(*headers, line.data) : NULL;
    text_close(&line);
    *headers = longer != NULL ? longer : *headers;
    return longer != NULL;
}

/* A line break would begin another header. */
static bool fits_header(const char *value)
{
    for (const char *at = value; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 127) {
            return false;
        }
    }
    return true;
}

/* "Expect:" spares a round trip before larger bodies. */
static enum weir_status make_headers(struct remote_client *client, const struct remote_client_call *call,
                                     struct curl_slist **headers, struct weir_error *error)
{
    char token[BEARER_TOKEN_BYTES_MAX];
    char credentials[BEARER_TOKEN_BYTES_MAX + 16] = "";
    if (call->reason != NULL && !fits_header(call->reason)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the reason has a line break or another control character");
    }
    /* A token that other users can read is as good as theirs. A refusal before the request shows it to its owner. */
    if (client->token_file != NULL && bearer_token_is_open(client->token_file)) {
        char word[SHELL_WORD_MAX];
        error_set(error, WEIR_INVALID_CONFIG, "every user of this machine may use the token in %s", client->token_file);
        error_hint(error, "chmod 600 %s, and if it may have been read, `weir token revoke` it",
                   shell_quote(client->token_file, word));
        return WEIR_INVALID_CONFIG;
    }
    if (client->token_file != NULL && !bearer_token_read(client->token_file, token, sizeof token)) {
        error_set(error, WEIR_INVALID_CONFIG, "no token can be read from %s", client->token_file);
        error_hint(error, "http.token_file names a file with one line: the token that `weir token create` has printed");
        return WEIR_INVALID_CONFIG;
    }
    if (client->token_file != NULL) {
        (void)snprintf(credentials, sizeof credentials, "Bearer %s", token);
    }
    bool is_fine = add_header(headers, "Accept", "application/json") &&
                   add_header(headers, "Expect", "") && /* libcurl takes "Expect:" alone as: send none */
                   (client->body.length == 0 ||
                    add_header(headers, "Content-Type", call->body_type == NULL ? "application/json" : call->body_type)) &&
                   (credentials[0] == '\0' || add_header(headers, "Authorization", credentials)) &&
                   (call->actor == NULL || !fits_header(call->actor) || add_header(headers, "Weir-Actor", call->actor)) &&
                   (call->reason == NULL || add_header(headers, "Weir-Reason", call->reason));
    explicit_bzero(token, sizeof token);
    explicit_bzero(credentials, sizeof credentials);
    return is_fine ? WEIR_OK : error_out_of_memory(error);
}

/* --- the answer --- */

/* A return of fewer bytes ends the call: the answer is too large. */
static size_t take_server_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct remote_client *client = context;
    return text_add(&client->answer, bytes, size * count) == WEIR_OK ? size * count : 0;
}

/* A socket is named by its path. */
static const char *shown_server(const struct remote_client *client)
{
    return client->socket_path[0] != '\0' ? client->socket_path : client->base;
}

/* Whether libcurl failed before a byte of the request was sent. */
static bool nothing_was_sent(const struct remote_client *client, CURLcode code)
{
    long sent = 0;
    (void)curl_easy_getinfo(client->easy, CURLINFO_REQUEST_SIZE, &sent);
    return sent == 0 || code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
           code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_PEER_FAILED_VERIFICATION;
}

static int64_t connect_limit_us(const struct remote_client_call *call)
{
    int64_t most_us = call->connect_us > 0 ? call->connect_us : CONNECT_TIMEOUT_US;
    return time_earlier(most_us, call->deadline_us);
}

/* Six failures have a remedy of their own:
 * - an answer that is too large, a server that accepts no connection, a deadline that has passed
 * - a certificate of an unknown authority, TLS to an address without it, plain HTTP to one with it.
 * For the other ones libcurl's text names the part that failed. */
static enum weir_status explain_failed_call(const struct remote_client *client, const struct remote_client_call *call,
                                            CURLcode code, struct weir_error *error)
{
    const char *shown = shown_server(client);
    char lasted[DURATION_TEXT_MAX];
    const char *reason = client->problem[0] != '\0' ? client->problem : curl_easy_strerror(code);
    if (code == CURLE_OUT_OF_MEMORY) {
        return error_out_of_memory(error);
    }
    if (code == CURLE_WRITE_ERROR) {
        return error_set(error, WEIR_FAILED, "the answer of %s has more than %d bytes", shown, CLIENT_ANSWER_BYTES_MAX);
    }
    if (code == CURLE_OPERATION_TIMEDOUT && nothing_was_sent(client, code)) {
        duration_format_short(connect_limit_us(call), lasted);
        error_set(error, WEIR_STORE_UNREACHABLE, "the server %s has not accepted a connection within %s", shown, lasted);
        error_hint(error,
                   "check that its machine runs, and that address and port are those of: weir serve --listen HOST:PORT");
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        duration_format_short(call->deadline_us, lasted);
        error_set(error, WEIR_STORE_UNREACHABLE, "the server %s has not answered within %s", shown, lasted);
        error_hint(error, "--timeout allows more; `weir why` and `weir doctor` on its machine show what it waits for");
    } else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
        error_set(error, WEIR_STORE_UNREACHABLE, "the certificate of %s is not accepted: %s", shown, reason);
        error_hint(error, "http.ca_file names a file with the certificates of its authority");
    } else if (code == CURLE_SSL_CONNECT_ERROR) {
        error_set(error, WEIR_STORE_UNREACHABLE, "the server %s has no TLS that can be used: %s", shown, reason);
        error_hint(error, "has `weir serve` a certificate at this address, or must its URL begin with http://?");
    } else if (code == CURLE_GOT_NOTHING && strncmp(shown, "http://", strlen("http://")) == 0) {
        error_set(error, WEIR_STORE_UNREACHABLE, "the server %s ended the connection without an answer", shown);
        error_hint(error, "has `weir serve` a certificate at this address, so that its URL must begin with https://?");
    } else {
        error_set(error, WEIR_STORE_UNREACHABLE, "the server %s cannot be reached: %s", shown, reason);
        error_hint(error, "a server runs with: weir serve --listen HOST:PORT");
    }
    if (call->effect != CLIENT_READS && !nothing_was_sent(client, code)) {
        error_prefix(error, "the request was sent, and its answer is lost");
        error_hint(error, "read back before you repeat it: it may have taken effect");
        error->status = WEIR_COMMIT_UNKNOWN;
    }
    return error->status;
}

enum weir_status remote_client_read_refusal(const json_t *problem, struct weir_error *error)
{
    const char *code = json_string_value(json_object_get(problem, "code"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *hint = json_string_value(json_object_get(problem, "hint"));
    for (int i = WEIR_OK + 1; code != NULL && detail != NULL && i < WEIR_STATUS_COUNT; i++) {
        if (strcmp(code, weir_status_name((enum weir_status)i)) == 0) {
            error_set(error, (enum weir_status)i, "%s", detail);
            error_hint(error, "%s", hint == NULL ? "" : hint);
            return (enum weir_status)i;
        }
    }
    return WEIR_OK;
}

/* Codes that no call of the store has: those of the listener and of the proxies before it. */
static enum weir_status status_of_number(long number, enum client_effect effect)
{
    switch (number) {
    case 401:
    case 403:
        return WEIR_NOT_PERMITTED;
    case 413:
        return WEIR_PARAMS_TOO_LARGE;
    case 429:
        return WEIR_QUEUE_FULL;
    case 503:
        return WEIR_STORE_BUSY;
    case 502:
    case 504:
        return effect != CLIENT_READS ? WEIR_COMMIT_UNKNOWN : WEIR_STORE_UNREACHABLE;
    default:
        return number >= 400 && number < 500 ? WEIR_INVALID_ARGUMENT : WEIR_FAILED;
    }
}

/* `answer`: a problem, or the body of a program that is no weir. */
static enum weir_status explain_problem(const struct remote_client *client, const struct remote_client_call *call,
                                        long number, const json_t *answer, struct weir_error *error)
{
    const char *code = json_string_value(json_object_get(answer, "code"));
    const char *detail = json_string_value(json_object_get(answer, "detail"));
    enum weir_status status = remote_client_read_refusal(answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (code == NULL || detail == NULL) {
        bool is_gateway = number == 502 || number == 503 || number == 504;
        status = is_gateway ? status_of_number(number, call->effect) : WEIR_STORE_NOT_WEIR;
        error_set(error, status, "%s answers %ld, but not in the form of a weir server", shown_server(client), number);
        error_hint(error, is_gateway ? "the proxy before the server does not reach it" : HINT_OF_URL);
        return status;
    }
    status = status_of_number(number, call->effect);
    error_set(error, status, "%s", detail);
    if (number == 401) {
        error_hint(error, "give a token by WEIR_TOKEN or http.token_file; token create on the server's machine makes one");
    } else if (strcmp(code, "wrong_host") == 0) {
        error_hint(error, "name the server as http://127.0.0.1:PORT");
    }
    return status;
}

/* An answer of success that cannot be read leaves open whether the change was made, as a lost one does. */
static enum weir_status read_server_answer(struct remote_client *client, const struct remote_client_call *call,
                                           json_t **ret_answer, struct weir_error *error)
{
    long number = 0;
    json_t *answer = NULL;
    (void)curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &number);
    client->number = number;
    bool is_fine = number >= 200 && number < 300;
    enum weir_status status =
        json_read(client->answer.data == NULL ? "" : client->answer.data, client->answer.length, &answer, NULL);
    if (status == WEIR_OUT_OF_MEMORY) {
        return error_out_of_memory(error);
    }
    if (!is_fine) {
        const char *problem = json_string_value(json_object_get(answer, "code"));
        text_copy(client->code, sizeof client->code, problem == NULL ? "" : problem);
        status = explain_problem(client, call, number, answer, error);
        json_decref(answer);
        return status;
    }
    if (!json_is_object(answer)) {
        json_decref(answer);
        status = call->effect != CLIENT_READS ? WEIR_COMMIT_UNKNOWN : WEIR_STORE_NOT_WEIR;
        error_set(error, status, "the answer of %s is no JSON object, or is cut", shown_server(client));
        error_hint(error, "check that it is a weir server of a version near to %s", WEIR_VERSION);
        return status;
    }
    if (ret_answer != NULL) {
        *ret_answer = answer;
    } else {
        json_decref(answer);
    }
    return WEIR_OK;
}

/* --- the call --- */

/* False when out of memory, or when libcurl lacks an option. A proxy of the environment is not for this machine. */
static bool set_call_options(struct remote_client *client, const struct remote_client_call *call)
{
    CURL *easy = client->easy;
    long deadline_ms = (long)(call->deadline_us / MICROSECONDS_PER_MS);
    long connect_ms = (long)(connect_limit_us(call) / MICROSECONDS_PER_MS);
    deadline_ms = deadline_ms < 1 ? 1 : deadline_ms;
    connect_ms = connect_ms < 1 ? 1 : connect_ms;
    bool has_body = client->body.length > 0;
    bool is_get = strcmp(call->method, "GET") == 0;
    return curl_easy_setopt(easy, CURLOPT_URL, client->address.data) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
           (is_get || (curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
                       curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)client->body.length) == CURLE_OK &&
                       curl_easy_setopt(easy, CURLOPT_POSTFIELDS, has_body ? client->body.data : "") == CURLE_OK)) &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_server_answer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->problem) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK && /* ".." is a name like any other */
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, call->effect == CLIENT_CHANGES ? 1L : 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, deadline_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
           (!client->is_local || curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK) &&
           (client->socket_path[0] == '\0' ||
            curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->socket_path) == CURLE_OK) &&
           (client->ca_file == NULL || curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file) == CURLE_OK);
}

/* libcurl does not copy the headers. */
static void remote_free_headers(struct remote_client *client)
{
    if (client->headers != NULL) {
        curl_slist_free_all(client->headers);
        client->headers = NULL;
    }
}

enum weir_status remote_client_begin(struct remote_client *client, const struct remote_client_call *call,
                                     struct weir_error *error)
{
    INVARIANT(client != NULL && client->easy != NULL && call->method != NULL && call->deadline_us > 0 && error != NULL);
    INVARIANT(client->headers == NULL);
    text_clear(&client->answer);
    text_clear(&client->address);
    client->problem[0] = '\0';
    client->number = 0;
    client->code[0] = '\0';
    if (client->is_target_too_long) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the request has more than %d bytes before its body, the most for a server",
                  CLIENT_TARGET_BYTES_MAX);
        error_hint(error,
                   "use fewer or shorter conditions: a character that is no letter of ASCII counts three for each byte");
        return WEIR_INVALID_ARGUMENT;
    }
    if (client->is_short_of_memory || text_format(&client->address, "%s%s", client->base, client->target.data) != WEIR_OK) {
        return error_out_of_memory(error);
    }
    enum weir_status status = make_headers(client, call, &client->headers, error);
    if (status == WEIR_OK && !set_call_options(client, call)) {
        status = error_out_of_memory(error);
    }
    if (status != WEIR_OK) {
        remote_free_headers(client);
    }
    return status;
}

enum weir_status remote_client_end(struct remote_client *client, const struct remote_client_call *call, CURLcode code,
                                   json_t **ret_answer, struct weir_error *error)
{
    INVARIANT(client != NULL && client->headers != NULL && error != NULL);
    remote_free_headers(client);
    return code == CURLE_OK ? read_server_answer(client, call, ret_answer, error)
                            : explain_failed_call(client, call, code, error);
}

/* Whether another server may get the request: this one has not been connected to. A machine that is switched off answers
 * nothing at all. */
static bool is_away(const struct remote_client *client, CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
           (code == CURLE_OPERATION_TIMEDOUT && nothing_was_sent(client, code));
}

/* The server that has answered stays the present one. The deadline is that of all tries: each server but the last gets an
 * equal part of the rest for its connection. */
enum weir_status remote_client_send(struct remote_client *client, const struct remote_client_call *call,
                                    json_t **ret_answer, struct weir_error *error)
{
    const struct clock *clock = clock_system();
    int64_t end_us = time_add(clock_boot(clock), call->deadline_us);
    struct remote_client_call try = *call;
    for (size_t tries = 1;; tries++) {
        int64_t left = (int64_t)(client->server_count - tries + 1);
        try.connect_us = time_earlier(CONNECT_TIMEOUT_US, time_later(1, try.deadline_us / left));
        enum weir_status status = remote_client_begin(client, &try, error);
        if (status != WEIR_OK) {
            return status;
        }
        CURLcode code = curl_easy_perform(client->easy);
        status = remote_client_end(client, &try, code, ret_answer, error);
        try.deadline_us = end_us - clock_boot(clock);
        if (!is_away(client, code) || tries >= client->server_count || try.deadline_us <= 0) {
            return status;
        }
        remote_client_choose(client, (client->server + 1) % client->server_count);
    }
}
