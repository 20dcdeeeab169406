/* Which sites may frame the box of a workspace: the policy (CSP) of its page, made of the setting http.embed_origins.
 *
 * Pure; any thread.
 */
#ifndef WEIR_SERVER_EMBED_POLICY_H
#define WEIR_SERVER_EMBED_POLICY_H

#include <stddef.h>

#include "weir/status.h"

enum { EMBED_ORIGINS_MOST = 16, EMBED_ORIGIN_BYTES_MAX = 260, EMBED_POLICY_BYTES_MAX = 5 * 1024 };

/* `origins`: "https://app.example.com", several with commas; "" gives "", by which no site may. WEIR_INVALID_ARGUMENT names
 * the one that is none. `size` is EMBED_POLICY_BYTES_MAX or more. */
WEIR_MUST_CHECK enum weir_status embed_policy_read(const char *origins, char *ret_policy, size_t size,
                                                   struct weir_error *error);

#endif
