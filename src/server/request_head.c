/* Which heads are refused:
 *
 *   1. a name with another character than those of a token, an empty name, a value with a control character;
 *   2. another version than 1.1: a client of 1.0 knows neither Host nor chunks;
 *   3. no Host, or several;
 *   4. several Content-Length, also equal ones;
 *   5. a folded line, a line that ends with a bare LF, a value with a NUL: programs differ in what they make of these;
 *   6. a Transfer-Encoding: 411. Without chunks the length of a body has one meaning only, and every client can give one.
 */
#include "server/request_head.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

enum { LINE_END = 2 }; /* CR LF */

static bool is_token(const char *name, size_t length)
{
    static const char more[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && (c == '\0' || strchr(more, c) == NULL)) {
            return false;
        }
    }
    return length > 0;
}

static bool is_field_value(const char *value, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_named(const char *name, size_t length, const char *wanted)
{
    return length == strlen(wanted) && strncasecmp(name, wanted, length) == 0;
}

/* The port, after the last colon, is left out; the colons of an IPv6 address stand in brackets. */
static void copy_host(char *to, size_t size, const char *value, size_t length)
{
    const char *bracket = memrchr(value, ']', length);
    const char *colon = memrchr(value, ':', length);
    size_t end = colon != NULL && (bracket == NULL || colon > bracket) ? (size_t)(colon - value) : length;
    end = end < size ? end : 0;
    memcpy(to, value, end);
    to[end] = '\0';
}

static size_t read_length(const char *value, size_t length)
{
    size_t number = 0;
    for (size_t i = 0; i < length; i++) {
        size_t digit = (size_t)(value[i] - '0');
        if (value[i] < '0' || value[i] > '9' || number > (SIZE_MAX - digit) / 10) {
            return SIZE_MAX;
        }
        number = number * 10 + digit;
    }
    return length == 0 ? SIZE_MAX : number;
}

void request_head_add(struct request_head *head, const char *name, size_t name_length, const char *value,
                      size_t value_length)
{
    INVARIANT(head != NULL && name != NULL);
    if (head->next != NULL) {
        head->is_broken = head->is_broken || name != head->next || value == NULL || value <= name + name_length;
        head->next = value == NULL ? name : value + value_length + LINE_END;
    }
    value = value == NULL ? "" : value;
    if (!is_token(name, name_length) || !is_field_value(value, value_length)) {
        head->is_malformed = true;
    } else if (is_named(name, name_length, "Host")) {
        head->hosts++;
        copy_host(head->host, sizeof head->host, value, value_length);
    } else if (is_named(name, name_length, "Content-Length")) {
        head->content_lengths++;
        head->content_length = read_length(value, value_length);
    } else if (is_named(name, name_length, "Transfer-Encoding")) {
        head->transfer_encodings++;
    }
}

/* The last line of the head is followed by the empty one and nothing else: a field that the library dropped would lie
 * between them. */
void request_head_end(struct request_head *head, const char *end)
{
    INVARIANT(head != NULL && end != NULL);
    head->is_broken = head->is_broken || (head->next != NULL && head->next + LINE_END != end);
}

int request_head_check(const struct request_head *head, const char *version, const char **ret_reason)
{
    INVARIANT(head != NULL && version != NULL && ret_reason != NULL);
    if (head->is_malformed) {
        *ret_reason = "a header field has a character that it must not have";
        return 400;
    }
    if (head->is_broken) {
        *ret_reason = "each line of a head is NAME: VALUE and ends with CR LF, without a continuation";
        return 400;
    }
    if (strcmp(version, "HTTP/1.1") != 0) {
        *ret_reason = "this server and each proxy before it speak HTTP/1.1 (nginx: proxy_http_version 1.1)";
        return 505;
    }
    if (head->hosts != 1) {
        *ret_reason = "a request has one Host";
        return 400;
    }
    if (head->content_lengths > 1) {
        *ret_reason = "a request has one Content-Length";
        return 400;
    }
    if (head->transfer_encodings > 0) {
        *ret_reason = "a body has a Content-Length here, and no Transfer-Encoding";
        return 411;
    }
    return 0;
}

bool request_head_is_local(const struct request_head *head)
{
    INVARIANT(head != NULL);
    struct in_addr address;
    return strcasecmp(head->host, "localhost") == 0 || strcmp(head->host, "[::1]") == 0 ||
           (inet_pton(AF_INET, head->host, &address) == 1 && ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}
