/* The HTTP client of a payload codec, on libcurl's multi interface.
 *
 * 1. codec_call() makes an easy handle with the body, the headers and the token, and adds it to the multi handle.
 * 2. libcurl reports its sockets (watch_socket()) and its next time-out (set_timer()). The sockets are in one epoll
 *    descriptor, which the engine's loop waits for.
 * 3. codec_step() passes ready sockets and a passed time-out to libcurl, then takes the calls that have ended.
 * 4. The status of an ended call decides. 200 is the answer. A 4xx status that concerns this payload is a refusal. Any
 *    other result means that the codec cannot be reached, and the caller tries again.
 *
 * The token is read anew for each call, because operators rotate it. It must never appear in a message.
 *
 * One thread at a time: the engine's loop, or the command line. */
#include "engine/temporal/codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bearer_token.h"
#include "base/error.h"
#include "base/libcurl.h"
#include "base/text.h"

#define NAMESPACE_MARK "{namespace}"

enum { EVENTS_AT_ONCE = 32, HEADERS_MAX = 3, REFUSAL_TEXT_MAX = 200, HEADER_TEXT_MAX = 512 };

struct codec {
    CURLM *multi;
    const struct clock *clock;
    int fd;
    int64_t due_us; /* of libcurl's own timer: boot clock */
    char *urls[2];  /* by verb */
    char *token_file;
    char *ca_file;
    struct curl_slist *headers; /* of each call; without the token */
    struct codec_call *calls;
    size_t count;
};

struct codec_call {
    struct codec_call *next;
    struct codec_call **link;
    struct codec *codec;
    CURL *easy;
    struct curl_slist *own_headers; /* with the token; NULL: those of the codec */
    struct text answer;
    codec_done *done;
    void *context;
    char problem[CURL_ERROR_SIZE];
};

/* --- what libcurl calls --- */

/* Adds or changes a socket of libcurl in the epoll descriptor. */
static int watch_socket(CURL *easy, curl_socket_t fd, int action, void *context, void *socket_context)
{
    struct codec *codec = context;
    struct epoll_event wanted = {.data.fd = fd};
    (void)easy;
    (void)socket_context;
    if (action == CURL_POLL_REMOVE) {
        (void)epoll_ctl(codec->fd, EPOLL_CTL_DEL, fd, NULL); /* it fails when the socket is closed already */
        return 0;
    }
    wanted.events |= action == CURL_POLL_IN || action == CURL_POLL_INOUT ? (uint32_t)EPOLLIN : 0;
    wanted.events |= action == CURL_POLL_OUT || action == CURL_POLL_INOUT ? (uint32_t)EPOLLOUT : 0;
    if (epoll_ctl(codec->fd, EPOLL_CTL_MOD, fd, &wanted) == 0 || epoll_ctl(codec->fd, EPOLL_CTL_ADD, fd, &wanted) == 0) {
        return 0;
    }
    return -1;
}

static int set_timer(CURLM *multi, long timeout_ms, void *context)
{
    struct codec *codec = context;
    (void)multi;
    codec->due_us = timeout_ms < 0 ? TIME_NEVER : clock_boot(codec->clock) + timeout_ms * MICROSECONDS_PER_MS;
    return 0;
}

/* A return of fewer bytes ends the call: the answer is too large. */
static size_t codec_take_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct codec_call *call = context;
    return text_add(&call->answer, bytes, size * count) == WEIR_OK ? size * count : 0;
}

/* --- a call --- */

static void codec_call_free(struct codec_call *call)
{
    *call->link = call->next;
    if (call->next != NULL) {
        call->next->link = call->link;
    }
    call->codec->count--;
    if (call->easy != NULL) {
        (void)curl_multi_remove_handle(call->codec->multi, call->easy);
        curl_easy_cleanup(call->easy);
    }
    curl_slist_free_all(call->own_headers);
    text_close(&call->answer);
    free(call);
}

/* False when out of memory. A token that cannot be read is left out: the codec's refusal names the reason. */
static bool add_token(struct codec_call *call)
{
    char token[BEARER_TOKEN_BYTES_MAX];
    char line[BEARER_TOKEN_BYTES_MAX + 32];
    if (!bearer_token_read(call->codec->token_file, token, sizeof token)) {
        return true;
    }
    (void)snprintf(line, sizeof line, "Authorization: Bearer %s", token);
    bool is_fine = true;
    for (const struct curl_slist *header = call->codec->headers; is_fine && header != NULL; header = header->next) {
        struct curl_slist *longer = curl_slist_append(call->own_headers, header->data);
        is_fine = longer != NULL;
        call->own_headers = is_fine ? longer : call->own_headers;
    }
    struct curl_slist *longer = is_fine ? curl_slist_append(call->own_headers, line) : NULL;
    call->own_headers = longer != NULL ? longer : call->own_headers;
    explicit_bzero(token, sizeof token);
    explicit_bzero(line, sizeof line);
    return longer != NULL;
}

/* False when out of memory, or when libcurl lacks an option. */
static bool codec_call_prepare(struct codec_call *call, const char *url, const char *body, size_t length)
{
    struct codec *codec = call->codec;
    CURL *easy = call->easy;
    struct curl_slist *headers = call->own_headers == NULL ? codec->headers : call->own_headers;
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, codec_take_answer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->problem) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(CODEC_TIMEOUT_US / MICROSECONDS_PER_MS)) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(CODEC_CONNECT_TIMEOUT_US / MICROSECONDS_PER_MS)) ==
               CURLE_OK &&
           (codec->ca_file == NULL || curl_easy_setopt(easy, CURLOPT_CAINFO, codec->ca_file) == CURLE_OK);
}

static struct codec_call *codec_call(void *context, enum codec_verb verb, const char *body, size_t length, codec_done *done,
                                     void *done_context)
{
    struct codec *codec = context;
    struct codec_call *call = codec->count < CODEC_CALLS_MAX ? calloc(1, sizeof *call) : NULL;
    if (call == NULL) {
        return NULL;
    }
    *call = (struct codec_call){.next = codec->calls,
                                .link = &codec->calls,
                                .codec = codec,
                                .easy = curl_easy_init(),
                                .answer = {.max = CODEC_BODY_BYTES_MAX},
                                .done = done,
                                .context = done_context};
    if (call->next != NULL) {
        call->next->link = &call->next;
    }
    codec->calls = call;
    codec->count++;
    if (call->easy == NULL || (codec->token_file != NULL && !add_token(call)) ||
        !codec_call_prepare(call, codec->urls[verb], body, length) ||
        curl_multi_add_handle(codec->multi, call->easy) != CURLM_OK) {
        codec_call_free(call);
        return NULL;
    }
    return call;
}

static void codec_cancel(void *context, struct codec_call *call)
{
    INVARIANT(call->codec == context);
    codec_call_free(call);
}

/* --- its end --- */

/* True for a refusal of this payload. The listed statuses concern the set-up of the codec, or pass: an expired token must
 * not fail executions for good. */
static bool is_refusal(long status)
{
    static const long of_all[] = {401, 403, 404, 405, 407, 408, 421, 425, 429};
    for (size_t i = 0; i < sizeof of_all / sizeof of_all[0]; i++) {
        if (status == of_all[i]) {
            return false;
        }
    }
    return status >= 400 && status < 500;
}

/* Step 4. */
static void codec_call_finish(struct codec_call *call, CURLcode code)
{
    INVARIANT(call->done != NULL);
    char text[HEADER_TEXT_MAX] = "";
    long status = 0;
    struct codec_result result = {.text = text, .body = call->answer.data, .length = call->answer.length};
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_WRITE_ERROR) {
        result.outcome = CODEC_REFUSED;
        (void)snprintf(text, sizeof text, "the payload codec's answer is larger than %d bytes", CODEC_BODY_BYTES_MAX);
    } else if (code != CURLE_OK) {
        result.outcome = CODEC_UNREACHABLE;
        (void)snprintf(text, sizeof text, "the payload codec: %s",
                       call->problem[0] != '\0' ? call->problem : curl_easy_strerror(code));
    } else if (status != 200) {
        result.outcome = is_refusal(status) ? CODEC_REFUSED : CODEC_UNREACHABLE;
        (void)snprintf(text, sizeof text, "the payload codec answered with status %ld: %.*s", status,
                       (int)(result.length < REFUSAL_TEXT_MAX ? result.length : REFUSAL_TEXT_MAX),
                       result.body == NULL ? "" : result.body);
    }
    text_make_safe(text);
    call->done(call->context, &result);
    codec_call_free(call);
}

/* Step 3. */
static int64_t codec_step(void *context)
{
    struct codec *codec = context;
    struct epoll_event events[EVENTS_AT_ONCE];
    CURLMsg *message;
    int running;
    int left;
    int count = epoll_wait(codec->fd, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        int mask = ((events[i].events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                   ((events[i].events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                   ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0);
        (void)curl_multi_socket_action(codec->multi, events[i].data.fd, mask, &running);
    }
    if (codec->due_us <= clock_boot(codec->clock)) {
        codec->due_us = TIME_NEVER;
        (void)curl_multi_socket_action(codec->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    while ((message = curl_multi_info_read(codec->multi, &left)) != NULL) {
        struct codec_call *call = NULL;
        if (message->msg == CURLMSG_DONE) {
            CURLcode code = message->data.result; /* the message ends with the handle */
            (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)(void *)&call);
            codec_call_finish(call, code);
        }
    }
    return codec->due_us;
}

static int codec_fd(void *context)
{
    return ((struct codec *)context)->fd;
}

/* --- opening and closing --- */

static void codec_close(void *context)
{
    struct codec *codec = context;
    for (struct codec_call *call = codec->calls; call != NULL;) {
        struct codec_call *next = call->next;
        codec_call_free(call);
        call = next;
    }
    if (codec->multi != NULL) {
        (void)curl_multi_cleanup(codec->multi);
        curl_slist_free_all(codec->headers);
    }
    if (codec->fd >= 0) {
        (void)close(codec->fd);
    }
    free(codec->urls[CODEC_ENCODE]);
    free(codec->urls[CODEC_DECODE]);
    free(codec->token_file);
    free(codec->ca_file);
    free(codec);
}

/* "{namespace}" is replaced. NULL when out of memory, or too long. */
static char *url_of(const struct codec_options *options, const char *verb)
{
    struct text url = {.max = CODEC_URL_BYTES_MAX};
    const char *rest = options->url;
    size_t length = strlen(rest);
    while (length > 0 && rest[length - 1] == '/') {
        length--;
    }
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && length > 0) {
        const char *mark = memmem(rest, length, NAMESPACE_MARK, sizeof NAMESPACE_MARK - 1);
        size_t before = mark == NULL ? length : (size_t)(mark - rest);
        status = text_add(&url, rest, before);
        if (status == WEIR_OK && mark != NULL) {
            status = text_add_string(&url, options->namespace_name);
            before += sizeof NAMESPACE_MARK - 1;
        }
        rest += before;
        length -= before;
    }
    status = status == WEIR_OK ? text_add_string(&url, verb) : status;
    if (status != WEIR_OK) {
        text_close(&url);
    }
    return url.data;
}

static enum weir_status codec_check_options(const struct codec_options *options, struct weir_error *error)
{
    const char *name = options->namespace_name;
    bool is_url = strncmp(options->url, "http://", 7) == 0 || strncmp(options->url, "https://", 8) == 0;
    if (!is_url || strlen(options->url) > CODEC_URL_BYTES_MAX / 2) {
        return error_set(error, WEIR_INVALID_CONFIG,
                         "temporal.codec_url must begin with http:// or https:// and have at "
                         "most %d bytes",
                         CODEC_URL_BYTES_MAX / 2);
    }
    for (size_t i = 0; name[i] != '\0'; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 127) {
            return error_set(error, WEIR_INVALID_CONFIG,
                             "temporal.namespace contains a control character, which the header X-Namespace cannot hold");
        }
    }
    return WEIR_OK;
}

static bool codec_open_parts(struct codec *codec, const struct codec_options *options)
{
    char name[HEADER_TEXT_MAX];
    /* The last one spares a round trip before larger bodies. */
    const char *const headers[HEADERS_MAX] = {"Content-Type: application/json", name, "Expect:"};
    (void)snprintf(name, sizeof name, "X-Namespace: %s", options->namespace_name);
    for (size_t i = 0; i < HEADERS_MAX; i++) {
        struct curl_slist *longer = curl_slist_append(codec->headers, headers[i]);
        if (longer == NULL) {
            return false;
        }
        codec->headers = longer;
    }
    codec->urls[CODEC_ENCODE] = url_of(options, "/encode");
    codec->urls[CODEC_DECODE] = url_of(options, "/decode");
    codec->token_file = options->token_file == NULL ? NULL : strdup(options->token_file);
    codec->ca_file = options->ca_file == NULL ? NULL : strdup(options->ca_file);
    return codec->urls[CODEC_ENCODE] != NULL && codec->urls[CODEC_DECODE] != NULL &&
           (codec->token_file != NULL || options->token_file == NULL) &&
           (codec->ca_file != NULL || options->ca_file == NULL) &&
           curl_multi_setopt(codec->multi, CURLMOPT_SOCKETFUNCTION, watch_socket) == CURLM_OK &&
           curl_multi_setopt(codec->multi, CURLMOPT_SOCKETDATA, codec) == CURLM_OK &&
           curl_multi_setopt(codec->multi, CURLMOPT_TIMERFUNCTION, set_timer) == CURLM_OK &&
           curl_multi_setopt(codec->multi, CURLMOPT_TIMERDATA, codec) == CURLM_OK &&
           curl_multi_setopt(codec->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CODEC_CONNECTIONS_MAX) == CURLM_OK;
}

enum weir_status codec_open(const struct codec_options *options, struct codec_wire *ret_wire, struct weir_error *error)
{
    INVARIANT(options != NULL && options->url != NULL && options->namespace_name != NULL && ret_wire != NULL);
    enum weir_status status = codec_check_options(options, error);
    status = status == WEIR_OK ? libcurl_load("temporal.codec_url", error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    struct codec *codec = calloc(1, sizeof *codec);
    if (codec == NULL) {
        return error_out_of_memory(error);
    }
    codec->clock = options->clock;
    codec->due_us = TIME_NEVER;
    codec->fd = epoll_create1(EPOLL_CLOEXEC);
    if (codec->fd < 0) {
        status = error_set_native(error, WEIR_SYSTEM, errno, "the system has no file descriptor for the codec: %s",
                                  strerror(errno));
        codec_close(codec);
        return status;
    }
    codec->multi = curl_multi_init();
    if (codec->multi == NULL || !codec_open_parts(codec, options)) {
        codec_close(codec);
        return error_out_of_memory(error);
    }
    *ret_wire = (struct codec_wire){.call = codec_call,
                                    .cancel = codec_cancel,
                                    .step = codec_step,
                                    .fd = codec_fd,
                                    .close = codec_close,
                                    .context = codec};
    return WEIR_OK;
}
