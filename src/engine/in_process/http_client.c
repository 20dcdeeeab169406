/* The HTTP client of the engine, on libcurl's multi interface.
 *
 *   1. http_client_submit() puts a request into the fair queue and wakes the thread.
 *   2. The thread takes requests in the order of their turns while fewer than HTTP_REQUESTS_MAX are under way.
 *   3. A hop begins with the check of its URL by libcurl's own parser, so that both mean the same host. A host that no rule
 *      can allow ends the request before its name is resolved.
 *   4. libcurl resolves the name once per connection and asks open_socket() for a socket to each address. There the binary
 *      address is checked, so neither a spelling nor a second answer of the resolver can lead elsewhere.
 *   5. The answer is a redirect that may be followed: the next hop begins at 3. To another origin (scheme, host, port) go
 *      only the public headers.
 *   6. Any other end is given to `done`. The place is returned before, because the owner of the lane may go with the call.
 *
 * libcurl must not follow redirects by itself: it would know nothing of 3 and of the headers in 5. A request that is
 * removed while its name is resolved must not wait for the resolver (CURLOPT_QUICK_EXIT): it would delay all others.
 *
 * Everything but the queue and the list belongs to the thread. */
#include "engine/in_process/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/libcurl.h"
#include "base/thread.h"
#include "engine/in_process/shortage.h"

enum { IDLE_CONNECTIONS_MAX = 64, POLL_MOST_MS = 60 * 1000 };
/* libcurl reports the limit of the connection and that of the request by one code, and measures with its own clock. */
#define TIMEOUT_TOLERANCE_US (50 * MICROSECONDS_PER_MS)

static void set_text(struct http_result *result, enum http_outcome outcome, const char *text)
{
    result->outcome = outcome;
    text_copy(result->text, sizeof result->text, text);
    text_make_safe(result->text);
}

/* --- requests --- */

struct http_request *http_request_new(void)
{
    struct http_request *request = calloc(1, sizeof *request);
    if (request != NULL) {
        request->url.max = HTTP_URL_BYTES_MAX;
        request->public_headers.max = HTTP_HEADERS_BYTES_MAX;
        request->private_headers = (struct text){.max = HTTP_HEADERS_BYTES_MAX, .wipes = true};
        request->answer.max = HTTP_BODY_BYTES_MAX;
    }
    return request;
}

/* The lines may hold secrets. */
static void free_headers(struct http_request *request)
{
    for (struct curl_slist *line = request->headers; line != NULL; line = line->next) {
        explicit_bzero(line->data, strlen(line->data));
    }
    if (request->headers != NULL) {
        curl_slist_free_all(request->headers);
        request->headers = NULL;
    }
}

void http_request_free(struct http_request *request)
{
    if (request == NULL) {
        return;
    }
    INVARIANT(request->easy == NULL);
    free_headers(request);
    text_close(&request->url);
    text_close(&request->public_headers);
    text_close(&request->private_headers);
    text_close(&request->body);
    text_close(&request->answer);
    free(request->origin);
    free(request);
}

void http_request_cancel(struct http_request *request)
{
    struct http_client *client = request->client;
    atomic_store(&request->is_cancelled, true);
    atomic_store(&client->has_cancelled, true);
    (void)curl_multi_wakeup(client->multi);
}

/* --- what libcurl calls --- */

static void note_refused_address(struct http_request *request, const struct sockaddr *address)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } shown = {.any = {.sa_family = AF_UNSPEC}};
    memcpy(&shown, address, address->sa_family == AF_INET6 ? sizeof shown.v6 : sizeof shown.v4);
    const void *bytes = shown.any.sa_family == AF_INET6 ? (const void *)&shown.v6.sin6_addr : &shown.v4.sin_addr;
    request->addresses_refused++;
    if (inet_ntop(shown.any.sa_family, bytes, request->refused, sizeof request->refused) == NULL) {
        text_copy(request->refused, sizeof request->refused, "?");
    }
}

/* Step 4. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http_request *request = context;
    request->addresses_tried++;
    if (purpose != CURLSOCKTYPE_IPCXN ||
        !address_rules_allow(request->client->rules, request->host, &address->addr, address->addrlen)) {
        note_refused_address(request, &address->addr);
        return CURL_SOCKET_BAD;
    }
    curl_socket_t made = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    request->is_starved = made == CURL_SOCKET_BAD && shortage_is_cause(errno);
    return made;
}

/* A return of fewer bytes ends the transfer. */
static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct http_request *request = context;
    enum weir_status status = text_add(&request->answer, bytes, size * count);
    request->is_starved = status == WEIR_OUT_OF_MEMORY;
    request->is_too_large = status != WEIR_OK && !request->is_starved;
    return status == WEIR_OK ? size * count : 0;
}

/* Only their size is of interest: a server may send headers without an end. */
static size_t take_header(char *bytes, size_t size, size_t count, void *context)
{
    struct http_request *request = context;
    (void)bytes;
    request->answer_headers += size * count;
    request->is_too_large = request->answer_headers > HTTP_HEADERS_BYTES_MAX;
    return request->is_too_large ? 0 : size * count;
}

/* --- a hop --- */

/* Appends the lines of a text to the list of headers. False: out of memory. */
static bool add_header_lines(struct http_request *request, const struct text *lines)
{
    for (size_t at = 0; at < lines->length; at += strlen(lines->data + at) + 1) {
        struct curl_slist *longer = curl_slist_append(request->headers, lines->data + at);
        if (longer == NULL) {
            return false;
        }
        request->headers = longer;
    }
    return true;
}

/* The parts of a URL as libcurl reads them. Not NULL: why it is no URL of a request. */
static const char *read_url_parts(CURLU *parts, struct http_request *request, char **ret_origin)
{
    char *user = NULL;
    char *scheme = NULL;
    char *host = NULL;
    char *port = NULL;
    const char *fault = NULL;
    if (curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK) {
        fault = "it holds a user name";
    } else if (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
               (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0)) {
        fault = "its scheme is neither http nor https";
    } else if (curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK || host[0] == '\0' ||
               strlen(host) >= sizeof request->host) {
        fault = "it has no host";
    } else if (curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK ||
               asprintf(ret_origin, "%s://%s:%s", scheme, host, port) < 0) {
        *ret_origin = NULL;
        fault = "it cannot be read";
    } else {
        size_t brackets = host[0] == '[' ? 1 : 0;
        text_copy(request->host, sizeof request->host, host + brackets);
        request->host[strcspn(request->host, brackets > 0 ? "]%" : "")] = '\0';
        fault = strchr(request->host, '%') != NULL ? "its host has a %" : NULL;
    }
    curl_free(user);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return fault;
}

/* Step 3. Sets the host, and the headers that go to this origin. */
static bool prepare_url(struct http_request *request, const char *url, struct http_result *result)
{
    char text[HTTP_TEXT_MAX];
    char *origin = NULL;
    CURLU *parts = curl_url();
    if (parts == NULL) {
        result->outcome = HTTP_STARVED;
        return false;
    }
    const char *fault = strspn(url, "\x21\x22\x23$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`"
                                    "abcdefghijklmnopqrstuvwxyz{|}~") != strlen(url)
                            ? "it holds other characters than printable ASCII without spaces and \\"
                        : curl_url_set(parts, CURLUPART_URL, url, 0) != CURLUE_OK ? "it cannot be read"
                                                                                  : read_url_parts(parts, request, &origin);
    curl_url_cleanup(parts);
    if (fault != NULL) {
        (void)snprintf(text, sizeof text, "the URL \"%.300s\" is not right: %s", url, fault);
        set_text(result, HTTP_BAD_URL, text);
        return false;
    }
    if (!address_rules_may_allow(request->client->rules, request->host)) {
        (void)snprintf(text, sizeof text, "http_step.allow of this node does not have the host \"%.200s\"", request->host);
        set_text(result, HTTP_REFUSED, text);
        free(origin);
        return false;
    }
    bool is_first = request->origin == NULL;
    bool is_same = is_first || strcasecmp(request->origin, origin) == 0;
    if (is_first) {
        request->origin = origin;
    } else {
        free(origin);
    }
    request->is_elsewhere = !is_same;
    free_headers(request);
    bool is_fine = add_header_lines(request, &request->public_headers) &&
                   (!is_same || add_header_lines(request, &request->private_headers));
    result->outcome = is_fine ? result->outcome : HTTP_STARVED;
    return is_fine;
}

static bool set_method(struct http_request *request)
{
    CURL *easy = request->easy;
    bool sends_body = request->has_body && !request->drops_body;
    bool is_get = request->drops_body && strcmp(request->method, "HEAD") != 0;
    const char *method = is_get ? "GET" : request->method;
    if (strcmp(method, "HEAD") == 0) {
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    }
    if (strcmp(method, "GET") == 0) {
        return curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL) == CURLE_OK;
    }
    /* Without a body a POST, PUT or PATCH has the length 0, and a DELETE none. */
    bool has_length = sends_body || strcmp(method, "DELETE") != 0;
    return (!has_length ||
            (curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(sends_body ? request->body.length : 0)) ==
                 CURLE_OK &&
             curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                              sends_body && request->body.data != NULL ? request->body.data : "") == CURLE_OK)) &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
}

/* The options that each hop has. Older versions of libcurl know neither the last two nor need them: the scheme is checked
 * in step 3, and a removal there waits for the resolver. */
static bool set_options(struct http_request *request)
{
    CURL *easy = request->easy;
    bool is_fine = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_WRITEDATA, request) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_HEADERDATA, request) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, request) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_PRIVATE, request) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->problem) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                                    (long)(HTTP_CONNECT_TIMEOUT_US / MICROSECONDS_PER_MS)) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075700
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    return is_fine;
}

/* Begins the next hop. False: `result` has the end of the request. */
static bool begin_hop(struct http_request *request, const char *url, struct http_result *result)
{
    struct http_client *client = request->client;
    CURL *easy = request->easy;
    int64_t left_us = request->timeout_us - (clock_boot(client->clock) - request->began_us);
    if (left_us < MICROSECONDS_PER_MS) {
        result->outcome = HTTP_TIMED_OUT;
        return false;
    }
    if (!prepare_url(request, url, result)) {
        return false;
    }
    text_clear(&request->answer);
    request->answer_headers = 0;
    request->addresses_tried = 0;
    request->addresses_refused = 0;
    if (curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK || !set_method(request) ||
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(left_us / MICROSECONDS_PER_MS)) != CURLE_OK ||
        curl_multi_add_handle(client->multi, easy) != CURLM_OK) {
        result->outcome = HTTP_STARVED;
        return false;
    }
    return true;
}

/* --- ends --- */

/* Step 6. */
static void finish_request(struct http_request *request, struct http_result *result)
{
    struct http_client *client = request->client;
    bool had_place = request->began_us != 0;
    result->took_us = had_place ? clock_boot(client->clock) - request->began_us : 0;
    result->body = request->answer.data;
    result->length = request->answer.length;
    if (request->easy != NULL) {
        (void)curl_multi_remove_handle(client->multi, request->easy);
        curl_easy_cleanup(request->easy);
        request->easy = NULL;
    }
    (void)pthread_mutex_lock(&client->lock);
    if (had_place) {
        client->running--;
        fair_queue_release(&client->queue, request->lane);
    }
    *request->link = request->next;
    if (request->next != NULL) {
        request->next->link = request->link;
    }
    (void)pthread_mutex_unlock(&client->lock);
    request->done(request, result);
}

/* True: the next hop has begun, or `result` has the end of the request. */
static bool follow_redirect(struct http_request *request, struct http_result *result, bool *ret_goes_on)
{
    CURL *easy = request->easy;
    char *target = NULL;
    bool is_redirect = result->status == 301 || result->status == 302 || result->status == 303 || result->status == 307 ||
                       result->status == 308;
    if (!is_redirect || request->redirects >= request->redirects_max ||
        curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &target) != CURLE_OK || target == NULL) {
        return false;
    }
    char *url = strdup(target);
    *ret_goes_on = false;
    if (url == NULL) {
        result->outcome = HTTP_STARVED;
        return true;
    }
    request->redirects++;
    /* RFC 9110: 303 is answered by a GET; 301 and 302 make one of a POST alone. */
    request->drops_body =
        request->drops_body || result->status == 303 || (result->status < 303 && strcmp(request->method, "POST") == 0);
    (void)curl_multi_remove_handle(request->client->multi, easy);
    *ret_goes_on = begin_hop(request, url, result);
    free(url);
    return true;
}

/* Translates the end of a transfer. */
static void read_end(struct http_request *request, CURLcode code, struct http_result *result)
{
    char text[HTTP_TEXT_MAX];
    long status = 0;
    curl_off_t wait = 0;
    curl_off_t first_byte = 0;
    (void)curl_easy_getinfo(request->easy, CURLINFO_STARTTRANSFER_TIME_T, &first_byte);
    (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(request->easy, CURLINFO_RETRY_AFTER, &wait);
    result->status = (int)status;
    result->retry_after_us = wait > 0 && wait < INT32_MAX ? (int64_t)wait * MICROSECONDS_PER_SECOND : -1;
    if (code == CURLE_OK) {
        result->outcome = HTTP_ANSWERED;
    } else if (request->is_starved || (code == CURLE_OUT_OF_MEMORY && first_byte == 0)) {
        result->outcome = HTTP_STARVED;
    } else if (code == CURLE_OUT_OF_MEMORY) {
        /* libcurl has this code for a line of headers over its maximum, too, which must not be repeated without an end. */
        set_text(result, HTTP_UNREACHABLE, "a line of the answer's headers is too long, or there was no memory for it");
    } else if (request->is_too_large) {
        (void)snprintf(text, sizeof text, "the answer is larger than %d bytes, or its headers are than %d",
                       HTTP_BODY_BYTES_MAX, HTTP_HEADERS_BYTES_MAX);
        set_text(result, HTTP_TOO_LARGE, text);
    } else if (request->addresses_refused > 0 && request->addresses_refused == request->addresses_tried) {
        (void)snprintf(text, sizeof text,
                       "http_step.allow of this node does not have the address %s of the host \"%.200s\"", request->refused,
                       request->host);
        set_text(result, HTTP_REFUSED, text);
    } else if (code == CURLE_OPERATION_TIMEDOUT &&
               clock_boot(request->client->clock) - request->began_us >= request->timeout_us - TIMEOUT_TOLERANCE_US) {
        result->outcome = HTTP_TIMED_OUT;
    } else if (code == CURLE_URL_MALFORMAT) {
        set_text(result, HTTP_BAD_URL, "the URL cannot be read");
    } else {
        set_text(result, HTTP_UNREACHABLE, request->problem[0] != '\0' ? request->problem : curl_easy_strerror(code));
    }
}

static void take_finished(struct http_client *client)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        struct http_request *request = NULL;
        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        struct http_result result = {.retry_after_us = -1};
        CURLcode code = message->data.result; /* the message ends with the handle */
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)(void *)&request);
        read_end(request, code, &result);
        bool goes_on = false;
        if (result.outcome != HTTP_ANSWERED || !follow_redirect(request, &result, &goes_on) || !goes_on) {
            finish_request(request, &result);
        }
    }
}

/* --- the thread --- */

/* Step 2. NULL: none waits, or no place is free. */
static struct http_request *take_next_request(struct http_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    struct fair_entry *turn = fair_queue_next(&client->queue);
    struct http_request *request = (struct http_request *)(void *)turn; /* its first member */
    if (request != NULL) {
        fair_queue_take(&client->queue, turn);
        fair_queue_hold(&client->queue, request->lane);
        client->running++;
        request->began_us = clock_boot(client->clock);
    }
    (void)pthread_mutex_unlock(&client->lock);
    return request;
}

static void start_requests(struct http_client *client)
{
    struct http_request *request;
    while ((request = take_next_request(client)) != NULL) {
        struct http_result result = {.retry_after_us = -1, .outcome = HTTP_STARVED};
        request->easy = curl_easy_init();
        if (request->easy == NULL || !set_options(request) || !begin_hop(request, request->url.data, &result)) {
            finish_request(request, &result);
        }
    }
}

/* One request that was cancelled, or any at the close; NULL: there is none. One that waits leaves the queue. */
static struct http_request *find_cancelled(struct http_client *client, bool all)
{
    (void)pthread_mutex_lock(&client->lock);
    struct http_request *request = client->requests;
    while (request != NULL && !all && !atomic_load(&request->is_cancelled)) {
        request = request->next;
    }
    if (request != NULL) {
        (void)fair_queue_remove(&client->queue, &request->turn);
    }
    (void)pthread_mutex_unlock(&client->lock);
    return request;
}

static void end_cancelled(struct http_client *client, bool all)
{
    struct http_request *request;
    while ((request = find_cancelled(client, all)) != NULL) {
        struct http_result result = {.retry_after_us = -1, .outcome = HTTP_CANCELLED};
        finish_request(request, &result);
    }
}

static bool is_closing(struct http_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    bool closing = client->closing;
    (void)pthread_mutex_unlock(&client->lock);
    return closing;
}

static void *run_client(void *argument)
{
    struct http_client *client = argument;
    int running;
    while (!is_closing(client)) {
        if (atomic_exchange(&client->has_cancelled, false)) {
            end_cancelled(client, false);
        }
        start_requests(client);
        (void)curl_multi_perform(client->multi, &running);
        take_finished(client);
        /* A place that became free is for a request that waits; a wake-up since the checks above ends the poll at once. */
        (void)pthread_mutex_lock(&client->lock);
        bool has_work = fair_queue_next(&client->queue) != NULL;
        (void)pthread_mutex_unlock(&client->lock);
        (void)curl_multi_poll(client->multi, NULL, 0, has_work ? 0 : POLL_MOST_MS, NULL);
    }
    end_cancelled(client, true);
    return NULL;
}

/* --- for the loop --- */

void http_client_init(struct http_client *client, const struct address_rules *rules, const struct clock *clock)
{
    INVARIANT(rules != NULL && clock != NULL);
    *client = (struct http_client){.rules = rules, .clock = clock};
    (void)pthread_mutex_init(&client->lock, NULL);
    fair_queue_init(&client->queue, HTTP_REQUESTS_MAX, HTTP_REQUESTS_MAX / HTTP_SPARE_PART);
}

enum weir_status http_client_start(struct http_client *client, struct weir_error *error)
{
    INVARIANT(client != NULL);
    enum weir_status status = client->has_thread ? WEIR_OK : libcurl_load("an http step", error);
    if (status != WEIR_OK || client->has_thread) {
        return status;
    }
    if (client->multi == NULL) {
        client->multi = curl_multi_init();
        if (client->multi == NULL ||
            curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS_MAX) != CURLM_OK) {
            return error_out_of_memory(error);
        }
    }
    int native = thread_start(&client->thread, run_client, client);
    client->has_thread = native == 0;
    return native == 0 ? WEIR_OK
                       : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for http steps");
}

void http_client_submit(struct http_client *client, struct http_request *request)
{
    INVARIANT(client->has_thread && request->client == NULL && request->url.data != NULL);
    INVARIANT(request->lane != NULL && request->done != NULL && request->method != NULL && request->timeout_us > 0);
    request->client = client;
    (void)pthread_mutex_lock(&client->lock);
    request->next = client->requests;
    request->link = &client->requests;
    if (request->next != NULL) {
        request->next->link = &request->next;
    }
    client->requests = request;
    fair_queue_add(&client->queue, request->lane, &request->turn);
    (void)pthread_mutex_unlock(&client->lock);
    (void)curl_multi_wakeup(client->multi);
}

void http_client_set_weight(struct http_client *client, struct fair_lane *lane, int weight)
{
    INVARIANT(lane != NULL);
    (void)pthread_mutex_lock(&client->lock);
    lane->weight = weight;
    (void)pthread_mutex_unlock(&client->lock);
}

void http_client_close(struct http_client *client)
{
    INVARIANT(client != NULL);
    if (client->has_thread) {
        (void)pthread_mutex_lock(&client->lock);
        client->closing = true;
        (void)pthread_mutex_unlock(&client->lock);
        (void)curl_multi_wakeup(client->multi);
        (void)pthread_join(client->thread, NULL);
    }
    if (client->multi != NULL) {
        (void)curl_multi_cleanup(client->multi);
    }
    (void)pthread_mutex_destroy(&client->lock);
}
