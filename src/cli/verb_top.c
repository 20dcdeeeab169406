#include "base/error.h"
#include "cli/command.h"

enum weir_status verb_top(struct invocation *invocation, struct weir_error *error)
{
    (void)invocation;
    return error_set(error, WEIR_FAILED, "this build has no top");
}
