/* The bytes and texts of gRPC that are neither HTTP/2 nor protobuf. Pure functions; any thread.
 *
 * Encoders write the shortest legal form. Decoders accept input of a peer: they check every byte, write at most the stated
 * size, and report a bad text as such; none of them ends the process.
 *
 *   prefix   [0][length, 4 bytes, highest first]     then the message, never compressed
 *   timeout  "1500m" = 1500 ms; at most 8 digits      units u m S M H
 */
#include "grpc/framing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define TIMEOUT_DIGITS_MAX INT64_C(99999999)

void grpc_prefix_write(uint8_t *to, size_t length)
{
    to[0] = 0;
    to[1] = (uint8_t)(length >> 24);
    to[2] = (uint8_t)(length >> 16);
    to[3] = (uint8_t)(length >> 8);
    to[4] = (uint8_t)length;
}

void grpc_timeout_write(int64_t timeout_us, char *to)
{
    static const struct {
        int64_t us;
        char unit;
    } units[] = {{1, 'u'}, {1000, 'm'}, {1000000, 'S'}, {60000000, 'M'}, {3600000000, 'H'}};
    int64_t left_us = timeout_us < 1 ? 1 : timeout_us;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        int64_t count = left_us / units[i].us + (left_us % units[i].us != 0);
        if (count <= TIMEOUT_DIGITS_MAX) {
            (void)snprintf(to, GRPC_TIMEOUT_TEXT_MAX, "%" PRId64 "%c", count, units[i].unit);
            return;
        }
    }
    (void)snprintf(to, GRPC_TIMEOUT_TEXT_MAX, "%" PRId64 "H", TIMEOUT_DIGITS_MAX);
}

/* -1: no hexadecimal digit. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void grpc_message_decode(char *message)
{
    char *to = message;
    for (const char *from = message; *from != '\0'; from++) {
        int high = *from == '%' ? hex_digit(from[1]) : -1;
        int low = high >= 0 ? hex_digit(from[2]) : -1;
        if (low >= 0) {
            int byte = high * 16 + low;
            *to++ = byte == 0 ? '?' : (char)byte;
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    text_make_safe(message);
}

/* -1: not in the standard alphabet. */
static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool grpc_base64_decode(const char *text, size_t length, uint8_t *to, size_t *ret_length)
{
    size_t padding = 0;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=') {
        padding++;
    }
    size_t digits = length - padding;
    if (digits % 4 == 1 || (padding > 0 && length % 4 != 0)) {
        return false;
    }
    uint32_t bits = 0;
    size_t written = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0) {
            return false;
        }
        bits = (bits << 6 | (uint32_t)digit) & 0xffffff;
        if (i % 4 == 3) {
            to[written++] = (uint8_t)(bits >> 16);
            to[written++] = (uint8_t)(bits >> 8);
            to[written++] = (uint8_t)bits;
        }
    }
    if (digits % 4 == 2) {
        to[written++] = (uint8_t)(bits >> 4);
    } else if (digits % 4 == 3) {
        to[written++] = (uint8_t)(bits >> 10);
        to[written++] = (uint8_t)(bits >> 2);
    }
    *ret_length = written;
    return true;
}

int grpc_status_read(const char *text, size_t length)
{
    if (length < 1 || length > 2 || text[0] < '0' || text[0] > '9') {
        return -1;
    }
    int code = text[0] - '0';
    if (length == 2) {
        if (text[1] < '0' || text[1] > '9' || code == 0) {
            return -1;
        }
        code = code * 10 + text[1] - '0';
    }
    return code <= 16 ? code : -1;
}

/* Fields that the protocol or nghttp2 sets; a caller must not send a second one. */
static bool is_own_name(const char *name)
{
    static const char *const own[] = {
        "content-type",   "te",         "user-agent",       "connection",       "host", "upgrade",
        "content-length", "keep-alive", "proxy-connection", "transfer-encoding"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(name, own[i]) == 0) {
            return true;
        }
    }
    return strncmp(name, "grpc-", 5) == 0;
}

bool grpc_header_name_is_fine(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.");
    return length > 0 && name[length] == '\0' && !is_own_name(name);
}

bool grpc_header_value_is_fine(const char *value)
{
    size_t length = strlen(value);
    for (size_t i = 0; i < length; i++) {
        if (value[i] < 0x20 || value[i] > 0x7e) {
            return false;
        }
    }
    return length == 0 || (value[0] != ' ' && value[length - 1] != ' ');
}

bool grpc_path_is_fine(const char *path)
{
    if (path[0] != '/') {
        return false;
    }
    const char *method = strchr(path + 1, '/');
    if (method == NULL || method == path + 1 || method[1] == '\0' || strchr(method + 1, '/') != NULL) {
        return false;
    }
    for (const char *c = path; *c != '\0'; c++) {
        if (*c <= 0x20 || *c > 0x7e || *c == '?' || *c == '#') {
            return false;
        }
    }
    return true;
}
