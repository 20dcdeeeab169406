/* base64url without padding (RFC 4648, 5): the letters of secrets and of signed tokens. Pure; any thread. */
#ifndef WEIR_BASE_BASE64URL_H
#define WEIR_BASE_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>

/* The letters of so many bytes, with the closing NUL. */
#define BASE64URL_BYTES(bytes) (((bytes)*4 + 2) / 3 + 1)

/* Writes BASE64URL_BYTES(length) bytes. */
void base64url_encode(const unsigned char *bytes, size_t length, char *to);
/* Reads `length` letters; `to` has `most` bytes. False: another letter, a length that no bytes have, or more than `most`.
 */
bool base64url_decode(const char *text, size_t length, unsigned char *to, size_t most, size_t *ret_length);

#endif
