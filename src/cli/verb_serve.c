#include "base/error.h"
#include "cli/command.h"

enum weir_status verb_serve(struct invocation *invocation, struct weir_error *error)
{
    (void)invocation;
    return error_set(error, WEIR_FAILED, "this build has no serve");
}

enum weir_status verb_dev(struct invocation *invocation, struct weir_error *error)
{
    (void)invocation;
    return error_set(error, WEIR_FAILED, "this build has no dev");
}
