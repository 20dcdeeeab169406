/* The verb of children. The drivers do the work; see children.h. */
#include "base/error.h"
#include "store/call.h"
#include "store/driver.h"

enum weir_status store_advance_children(struct store *store, struct children_advance *ret_advance, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_advance != NULL);
    CALL(store, "advance_children", error, store->driver->advance_children(store, ret_advance, detail));
}
