#include "cli/wait_for_end.h"

enum weir_status verb_wait(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    enum weir_status status = invocation_open_store(invocation, STORE_READ, &store, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = await_end(invocation, store, invocation_argument(invocation, 0), invocation_number(invocation, "timeout", -1),
                       true, error);
    store_close(store);
    return status;
}
