/* A group of six bits for each letter. The bits are collected, and leave as soon as a byte, or a letter, is whole. */
#include "base/base64url.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_encode(const unsigned char *bytes, size_t length, char *to)
{
    INVARIANT(bytes != NULL && to != NULL);
    uint32_t collected = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < length; i++) {
        collected = collected << 8 | bytes[i];
        for (bits += 8; bits >= 6; bits -= 6) {
            *to++ = letters[collected >> (bits - 6) & 63];
        }
    }
    if (bits > 0) {
        *to++ = letters[collected << (6 - bits) & 63];
    }
    *to = '\0';
}

bool base64url_decode(const char *text, size_t length, unsigned char *to, size_t most, size_t *ret_length)
{
    INVARIANT(text != NULL && to != NULL && ret_length != NULL);
    uint32_t collected = 0;
    unsigned bits = 0;
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        const char *letter = text[i] == '\0' ? NULL : strchr(letters, text[i]);
        if (letter == NULL) {
            return false;
        }
        collected = collected << 6 | (uint32_t)(letter - letters);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            if (written == most) {
                return false;
            }
            to[written++] = (unsigned char)(collected >> bits);
        }
    }
    *ret_length = written;
    return length % 4 != 1;
}
