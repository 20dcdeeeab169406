/* The stack that threads of this process get: the soft limit of the process decides. */
#ifndef WEIR_BASE_STACK_H
#define WEIR_BASE_STACK_H

#include "base/error.h"
#include "weir/status.h"

/* WEIR_SYSTEM when the limit is below the need of the threads of a node; they would end the process in the middle of their
 * work. */
WEIR_MUST_CHECK enum weir_status stack_require(struct weir_error *error);

#endif
