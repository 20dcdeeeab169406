/* The texts and bytes of gRPC over HTTP/2 that are neither HTTP/2 nor protobuf: the message prefix, the timeout, the two
 * encodings of trailers, the legal headers. Pure; the rules are those of the gRPC project's PROTOCOL-HTTP2.
 */
#ifndef WEIR_GRPC_FRAMING_H
#define WEIR_GRPC_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_PREFIX_BYTES = 5,     /* compressed flag, then the length, 4 bytes, the highest first */
    GRPC_TIMEOUT_TEXT_MAX = 16 /* "99999999H" and its end */
};

/* Prefix of an uncompressed message. `length` fits into 32 bits. */
void grpc_prefix_write(uint8_t *to, size_t length);

/* The finest unit that takes at most 8 digits, rounded up: the server must not give up before we do. At least "1u". */
void grpc_timeout_write(int64_t timeout_us, char *to);

/* Decodes %41 in place; any other text stays as it is. Then makes it one safe line. */
void grpc_message_decode(char *message);

/* Standard alphabet, padded or not. `to` holds length / 4 * 3 + 3 bytes. False: no base64. */
bool grpc_base64_decode(const char *text, size_t length, uint8_t *to, size_t *ret_length);

/* "0" to "16"; -1 for everything else. */
int grpc_status_read(const char *text, size_t length);

/* A header that a caller may add: the name in lower case and none of the protocol's own, the value printable ASCII. */
bool grpc_header_name_is_fine(const char *name);
bool grpc_header_value_is_fine(const char *value);
/* "/package.Service/Method" */
bool grpc_path_is_fine(const char *path);

#endif
