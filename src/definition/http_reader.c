/* Reading the keys of an http step. Part of definition_read() (definition_reader.c).
 *
 *   1. Input may fill places in the URL, and must not choose its scheme. A URL with an expression in it begins with a
 *      fixed http:// or https://, unless the URL is one expression. The engine encodes the values
 *      (engine/in_process/step_http.c).
 *   2. Headers that weir or the HTTP client set are refused by name. With them a step could pass another key of idempotency
 *      than its own, or change where its message ends.
 *   3. A URL with a name or password is refused: definitions are no place for secrets.
 *
 * The value of an expression is checked when the step runs. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "definition/definition_internal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

/* Checks the fixed part of a URL, or all of it. */
static enum weir_status check_url(struct definition_reader *reader, const struct yaml_node *node,
                                  const struct template *url)
{
    if (template_is_expression(url)) {
        return WEIR_OK;
    }
    const struct template_part *first = url->part_count > 0 ? &url->parts[0] : NULL;
    const char *start = first != NULL && first->kind == PART_LITERAL ? first->text : "";
    const char *authority =
        strncasecmp(start, "http://", 7) == 0 || strncasecmp(start, "https://", 8) == 0 ? strchr(start, '/') + 2 : NULL;
    if (authority == NULL) {
        FAIL(reader, node, "\"url\" must begin with http:// or https://");
        error_hint(reader->error, "write url: https://api.example.com/orders/${.input.order}");
        return reader->source.status;
    }
    const char *name = memchr(authority, '@', strcspn(authority, "/?#"));
    if (name != NULL) {
        FAIL(reader, node, "\"url\" must not hold a user name or a password");
        error_hint(reader->error, "write bearer: NAME of a secret, or secrets: {Authorization: NAME}");
        return reader->source.status;
    }
    for (size_t i = 0; i < url->part_count; i++) {
        const unsigned char *text = (const unsigned char *)url->parts[i].text;
        for (size_t j = 0; url->parts[i].kind == PART_LITERAL && j < url->parts[i].length; j++) {
            if (text[j] <= ' ' || text[j] >= 0x7f || text[j] == '\\') {
                FAIL(reader, node, "\"url\" must consist of printable ASCII without spaces and \\");
                error_hint(reader->error, "write other characters as %%XX, and names of hosts in their xn-- form");
                return reader->source.status;
            }
        }
    }
    return WEIR_OK;
}

/* Only methods with one meaning everywhere. GET and HEAD have no body: servers and proxies differ in what they make of one.
 */
static enum weir_status read_method(struct definition_reader *reader, const struct yaml_node *node, bool has_body,
                                    const char **ret_method)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"};
    const char *text = NULL;
    *ret_method = has_body ? "POST" : "GET";
    if (node == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = reader_take_text(reader, node, "\"method\"", &text);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0] && status == WEIR_OK; i++) {
        if (strcmp(text, methods[i]) == 0) {
            *ret_method = methods[i];
            return has_body && (strcmp(text, "GET") == 0 || strcmp(text, "HEAD") == 0)
                       ? FAIL(reader, node, "a %s request has no \"body\"", text)
                       : WEIR_OK;
        }
    }
    if (status == WEIR_OK) {
        FAIL(reader, node, "\"%.20s\" is no method of an http step", text);
        error_hint(reader->error, "write one of GET, POST, PUT, PATCH, DELETE, HEAD");
        return reader->source.status;
    }
    return status;
}

enum weir_status reader_take_header_name(struct definition_reader *reader, const struct yaml_node *node,
                                         const char **ret_name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"; /* RFC 9110, token */
    static const char *const reserved[] = {"Connection", "Content-Length",    "Expect", "Host",    "Idempotency-Key",
                                           "Keep-Alive", "Proxy-Connection",  "TE",     "Trailer", "traceparent",
                                           "tracestate", "Transfer-Encoding", "Upgrade"};
    const char *name = node->text;
    if (node->kind != YAML_STRING || node->length == 0 || node->length > 128 || name[strspn(name, letters)] != '\0') {
        return FAIL(reader, node, "\"%.64s\" is no name of a header", name != NULL ? name : "");
    }
    bool is_reserved = strncasecmp(name, "Weir-", 5) == 0 || strncasecmp(name, "Proxy-", 6) == 0;
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        is_reserved = is_reserved || strcasecmp(name, reserved[i]) == 0;
    }
    if (is_reserved) {
        return FAIL(reader, node, "the header %.64s is set by weir itself", name);
    }
    *ret_name = arena_copy_string(reader->arena, name);
    return *ret_name != NULL ? WEIR_OK : error_out_of_memory(reader->error);
}

/* Names differ by more than their case, because servers take them for equal. */
static enum weir_status read_headers(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                     struct step_http *http)
{
    if (node->kind != YAML_MAP || node->count > STEP_HEADERS_MAX) {
        return FAIL(reader, node, "\"headers\" must be a map of at most %d names and values", STEP_HEADERS_MAX);
    }
    struct step_header *headers = arena_allocate(reader->arena, (node->count + 1) * sizeof *headers);
    if (headers == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        enum weir_status status = reader_take_header_name(reader, node->keys[i], &headers[i].name);
        status = status == WEIR_OK ? reader_take_template(reader, index, node->values[i], "a header", &headers[i].value)
                                   : status;
        for (size_t j = 0; j < i && status == WEIR_OK; j++) {
            if (strcasecmp(headers[j].name, headers[i].name) == 0) {
                status = FAIL(reader, node->keys[i], "the header %.64s is there twice", headers[i].name);
            }
        }
        if (status != WEIR_OK) {
            return status;
        }
    }
    http->headers = headers;
    http->header_count = node->count;
    return WEIR_OK;
}

/* 204, or "200-299". */
static enum weir_status read_statuses(struct definition_reader *reader, const struct yaml_node *node,
                                      struct step_statuses *statuses)
{
    const char *text = node->kind == YAML_STRING ? node->text : "";
    bool is_range =
        strlen(text) == 7 && strspn(text, "0123456789") == 3 && text[3] == '-' && strspn(text + 4, "0123456789") == 3;
    int64_t first = node->kind == YAML_INTEGER ? node->integer : 0;
    int64_t last = first;
    if (is_range) {
        first = (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
        last = (text[4] - '0') * 100 + (text[5] - '0') * 10 + (text[6] - '0');
    }
    if (first < 200 || last > 599 || first > last) {
        FAIL(reader, node, "\"expect\" must be statuses from 200 to 599");
        error_hint(reader->error, "write expect: [200, 404], or expect: [200-299, 404]");
        return reader->source.status;
    }
    *statuses = (struct step_statuses){.first = (int)first, .last = (int)last};
    return WEIR_OK;
}

static enum weir_status read_expect(struct definition_reader *reader, const struct yaml_node *node, struct step_http *http)
{
    const struct yaml_node *const *nodes = node->kind == YAML_LIST ? node->values : &node;
    size_t count = node->kind == YAML_LIST ? node->count : 1;
    if (count == 0 || count > STEP_STATUSES_MAX) {
        return FAIL(reader, node, "\"expect\" must be 1 to %d statuses", STEP_STATUSES_MAX);
    }
    struct step_statuses *statuses = arena_allocate(reader->arena, count * sizeof *statuses);
    if (statuses == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < count; i++) {
        enum weir_status status = read_statuses(reader, nodes[i], &statuses[i]);
        if (status != WEIR_OK) {
            return status;
        }
    }
    http->expect = statuses;
    http->expect_count = count;
    return WEIR_OK;
}

/* The body as a tree of templates. */
static enum weir_status read_body_tree(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                       struct step_http *http)
{
    return node->kind == YAML_NULL ? FAIL(reader, node, "\"body\" must not be null")
                                   : reader_take_tree(reader, index, node, "\"body\"", &http->body);
}

/* Two values of Authorization would leave the choice to the server. */
static enum weir_status read_bearer(struct definition_reader *reader, const struct yaml_node *node, struct step_http *http)
{
    for (size_t i = 0; i < http->header_count; i++) {
        if (strcasecmp(http->headers[i].name, "Authorization") == 0) {
            return FAIL(reader, node, "\"bearer\" sends the header Authorization, which is in \"headers\" too");
        }
    }
    return reader_take_secret_name(reader, node, &http->bearer);
}

/* The time that the function has for its report. Without one a function that dies would leave the step open for ever. */
static enum weir_status read_callback(struct definition_reader *reader, const struct yaml_node *node, int64_t *ret_us)
{
    enum weir_status status = reader_take_duration(reader, node, "\"callback\"", ret_us);
    return status == WEIR_OK && *ret_us <= 0 ? FAIL(reader, node, "\"callback\" must be longer than 0") : status;
}

enum weir_status http_read(struct definition_reader *reader, size_t index, const struct yaml_node *node, struct step *step)
{
    static const char *const keys[] = {"method",    "url",    "headers", "body",    "expect",
                                       "redirects", "bearer", "sign",    "callback"};
    struct step_http *http = &step->http;
    step->kind = STEP_HTTP;
    *http = (struct step_http){.method = "GET"};
    enum weir_status status =
        yaml_check_keys(&reader->source, node, "\"http\"", keys, sizeof keys / sizeof keys[0], reader->error);
    if (status != WEIR_OK) {
        return status;
    }
    const struct yaml_node *url = yaml_get(node, "url");
    const struct yaml_node *headers = yaml_get(node, "headers");
    const struct yaml_node *body = yaml_get(node, "body");
    const struct yaml_node *expect = yaml_get(node, "expect");
    const struct yaml_node *redirects = yaml_get(node, "redirects");
    const struct yaml_node *bearer = yaml_get(node, "bearer");
    const struct yaml_node *sign = yaml_get(node, "sign");
    const struct yaml_node *callback = yaml_get(node, "callback");
    if (url == NULL) {
        FAIL(reader, node, "an http step needs \"url\"");
        error_hint(reader->error, "write http: {url: \"https://api.example.com/orders\"}");
        return reader->source.status;
    }
    int64_t followed = 0;
    status = reader_take_template(reader, index, url, "\"url\"", &http->url);
    status = status == WEIR_OK ? check_url(reader, url, http->url) : status;
    status = status == WEIR_OK && headers != NULL ? read_headers(reader, index, headers, http) : status;
    status = status == WEIR_OK && body != NULL ? read_body_tree(reader, index, body, http) : status;
    status = status == WEIR_OK ? read_method(reader, yaml_get(node, "method"), body != NULL, &http->method) : status;
    status = status == WEIR_OK && expect != NULL ? read_expect(reader, expect, http) : status;
    status = status == WEIR_OK && redirects != NULL
                 ? reader_take_integer(reader, redirects, "\"redirects\"", 0, STEP_REDIRECTS_MAX, &followed)
                 : status;
    http->redirects = (int)followed;
    status = status == WEIR_OK && bearer != NULL ? read_bearer(reader, bearer, http) : status;
    status = status == WEIR_OK && sign != NULL ? reader_take_secret_name(reader, sign, &http->sign) : status;
    return status == WEIR_OK && callback != NULL ? read_callback(reader, callback, &http->callback_us) : status;
}
