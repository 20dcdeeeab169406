/* Modes of idempotency keys (docs/design/keys.md). store/store.h includes this file. Pure; any thread. */
#ifndef WEIR_STORE_KEY_MODE_H
#define WEIR_STORE_KEY_MODE_H

#include <stdint.h>

#include "weir/status.h"

/* The effect of a request whose idempotency key is known (docs/design/keys.md). */
enum key_mode { KEY_ONCE, KEY_REPLACE, KEY_DEBOUNCE, KEY_ONE_ACTIVE };

struct enqueue_request;
/* The longest delay of a debounce: that of the request, or DEBOUNCE_WINDOWS windows. */
int64_t debounce_most_us(const struct enqueue_request *request);
/* "once", "replace", "debounce", "one_active". */
const char *key_mode_name(enum key_mode mode);
/* WEIR_INVALID_ARGUMENT names the nearest mode. */
WEIR_MUST_CHECK enum weir_status key_mode_parse(const char *name, enum key_mode *ret_mode, struct weir_error *error);

#endif
