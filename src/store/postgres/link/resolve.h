/* A host's addresses within a deadline. libpq would call the resolver itself and wait for it without a limit. */
#ifndef WEIR_STORE_POSTGRES_LINK_RESOLVE_H
#define WEIR_STORE_POSTGRES_LINK_RESOLVE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

enum { RESOLVED_MOST = 4, RESOLVED_TEXT_MAX = 64 };

struct resolved {
    char addresses[RESOLVED_MOST][RESOLVED_TEXT_MAX]; /* numeric */
    size_t count;
};

/* `until_us` is boot time. WEIR_STORE_UNREACHABLE: unknown name, or no answer in time. Any thread. */
enum weir_status resolve_name(const char *host, int64_t until_us, struct resolved *ret_resolved, struct weir_error *error);

#endif
