/* The rules for the head of a request (RFC 9110 and 9112), beyond those that libmicrohttpd keeps.
 *
 * Two programs that read the same bytes as different requests can be turned against each other (request smuggling), so a
 * head with two meanings is refused and never repaired. Pure; one head in one thread.
 */
#ifndef WEIR_SERVER_REQUEST_HEAD_H
#define WEIR_SERVER_REQUEST_HEAD_H

#include <stdbool.h>
#include <stddef.h>

/* The facts of the fields of one head, collected by request_head_add(). Starts zeroed.
 *
 * libmicrohttpd 0.9 reads a head where it lies, so the texts that it hands out show the lines as they came. `next` is where
 * the name of the next field must begin: right after the CR LF of the line before. It finds folded lines, lines that end
 * with a bare LF, values that are cut at a NUL, and fields that the library drops. */
struct request_head {
    size_t hosts;
    size_t content_lengths;
    size_t transfer_encodings;
    size_t content_length; /* 0 without one; SIZE_MAX when it is no number or too large for one */
    bool is_malformed;     /* a name or a value that no field may have */
    bool is_broken;        /* a line that is not NAME: VALUE CR LF */
    const char *next;      /* NULL = the lines are not compared */
    char host[256];        /* without the port; empty when it is longer than a name can be */
};

void request_head_add(struct request_head *head, const char *name, size_t name_length, const char *value,
                      size_t value_length);
/* After the last field: `end` is the byte behind the empty line that ends the head. */
void request_head_end(struct request_head *head, const char *end);
/* The HTTP status with which the head is refused, and the reason as a sentence; 0 = it is fine. */
int request_head_check(const struct request_head *head, const char *version, const char **ret_reason);
/* Whether `host` is a name of this machine for itself. A web page that makes its own name point here sends its own name, so
 * that a listener without tokens refuses it. */
bool request_head_is_local(const struct request_head *head);

#endif
