/* The members of a JSON body that a handler takes, read by a table of them. */
#ifndef WEIR_SERVER_ROUTES_BODY_H
#define WEIR_SERVER_ROUTES_BODY_H

#include "server/request.h"

enum body_kind {
    BODY_TEXT,   /* const char *: lives as long as the object */
    BODY_NUMBER, /* int64_t, at least `least` and at most `most` */
    BODY_SWITCH, /* int: 0, 1 */
    BODY_VALUE   /* const json_t *: any JSON, owned by the object */
};

struct body_member {
    const char *name;
    enum body_kind kind;
    void *to; /* untouched when the body has no such member, or null */
    int64_t least;
    int64_t most;
    bool is_required;
};

/* Reads the body as an object with no other members than these. *ret_object: to be released by the caller, when the texts
 * are not needed any more; NULL after an error. *ret_pointer: the member at fault, as a JSON pointer in the arena of the
 * request, or NULL. WEIR_INVALID_ARGUMENT, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status body_read(struct http_request *request, const struct body_member *members, size_t count,
                                           json_t **ret_object, const char **ret_pointer, struct weir_error *error);

#endif
