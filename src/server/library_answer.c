/* The answers of libmicrohttpd to bytes that are no request: a bad first line, a malformed field, a head without room.
 *
 * The library answers them with a page of HTML before any callback, and has no option for another text. But it sends that
 * page by its own exported function MHD_queue_response(). A dynamic library finds such a function in the program first, if
 * the program exports one of the name. So the program does (meson.build), and this one puts a problem in the place of the
 * page. weir itself calls the library's function through its table (libmicrohttpd.h), so every call that comes here is one
 * of the library.
 *
 * A library that was linked with -Bsymbolic-functions calls itself directly: then its pages stay. The same holds in a
 * process that has loaded libweir. Nothing else depends on it. Runs in the thread of a listener, and never waits. */
#include "server/library_answer.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/uuid.h"
#include "server/http_server.h"
#include "server/problem_table.h"
#include "server/request.h"

static const struct library_refusal {
    unsigned status;
    const char *code;
    const char *detail;
} refusals[] = {
    {400, "invalid_request", "the first line or a field of the head is malformed, or there is no Host"},
    {413, "body_too_large", "the Content-Length is larger than any body may be"},
    {414, "head_too_large", "the first line of the request is too long"},
    {431, "head_too_large", "the fields of the request are too long, or too many"},
    {505, "invalid_request", "this server speaks HTTP/1.1 only"},
};

/* NULL: the library's page stays, of a status that is not known here. */
static const struct library_refusal *find_refusal(unsigned status)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].status == status) {
            return &refusals[i];
        }
    }
    return NULL;
}

/* The fields of the head, beside those that the library writes. */
enum { FIELDS = 5 };
typedef const char *answer_fields[FIELDS][2];

static struct MHD_Response *make_response(const struct text *body, answer_fields fields)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(body->length, body->data, MHD_RESPMEM_MUST_COPY);
    for (size_t i = 0; i < FIELDS && response != NULL; i++) {
        (void)MHD_add_response_header(response, fields[i][0], fields[i][1]);
    }
    return response;
}

/* After a refusal of a Content-Length, version 0.9.75 goes on and puts a second head between the first one and the body. So
 * the answer of a connection without TLS is written here, and the library then finds that it cannot write any more. False:
 * the connection has TLS, or no room for the few bytes. */
static bool write_at_once(struct MHD_Connection *connection, unsigned status, const struct text *body, answer_fields fields)
{
    const union MHD_ConnectionInfo *socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct text whole = {.max = HTTP_ANSWER_BYTES_SHORT};
    char date[64];
    time_t now = time(NULL);
    struct tm parts;
    if (socket == NULL || MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) != NULL) {
        return false;
    }
    (void)strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    enum weir_status filled =
        text_format(&whole, "HTTP/1.1 %u %s\r\nDate: %s\r\nConnection: close\r\nContent-Length: %zu\r\n", status,
                    http_status_title((int)status), date, body->length);
    for (size_t i = 0; i < FIELDS && filled == WEIR_OK; i++) {
        filled = text_format(&whole, "%s: %s\r\n", fields[i][0], fields[i][1]);
    }
    filled = filled == WEIR_OK ? text_format(&whole, "\r\n%s", body->data) : filled;
    bool is_sent = filled == WEIR_OK &&
                   send(socket->connect_fd, whole.data, whole.length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)whole.length;
    text_close(&whole);
    return is_sent && shutdown(socket->connect_fd, SHUT_WR) == 0;
}

enum MHD_Result library_answer_queue(struct MHD_Connection *connection, unsigned status, struct MHD_Response *page)
{
    INVARIANT(connection != NULL && page != NULL);
    const struct library_refusal *refusal = find_refusal(status);
    struct http_request request = {.body = {.max = 0}};
    struct http_answer answer = {.body = {.max = HTTP_ANSWER_BYTES_SHORT}};
    struct MHD_Response *response = NULL;
    if (refusal != NULL) {
        uuid_make_beside(clock_wall(clock_system()), request.id);
        respond_problem(&request, &answer, (int)status, refusal->code, refusal->detail, problem_find(refusal->code)->remedy,
                        NULL);
    }
    if (answer.body.data != NULL) {
        answer_fields fields = {{"Content-Type", answer.type},
                                {"Cache-Control", "no-store"},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Content-Security-Policy", HTTP_POLICY_OF_DATA},
                                {"Weir-Request-Id", request.id}};
        bool is_doubled = strncmp(MHD_get_version(), "0.9.", 4) == 0;
        response = is_doubled && write_at_once(connection, status, &answer.body, fields)
                       ? NULL
                       : make_response(&answer.body, fields);
    }
    enum MHD_Result queued = MHD_queue_response(connection, status, response != NULL ? response : page);
    if (response != NULL) {
        MHD_destroy_response(response);
    }
    text_close(&answer.body);
    return queued;
}
