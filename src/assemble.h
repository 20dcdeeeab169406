/* Puts a node together from concrete parts. src/assemble.c is the only file that names drivers: the rest of the program
 * knows stores and engines by their interfaces. */
#ifndef WEIR_ASSEMBLE_H
#define WEIR_ASSEMBLE_H

#include "engine/engine.h"
#include "engine/in_process/in_process.h"
#include "store/store.h"

/* Picks the driver by the URL's scheme and opens it. store_open() calls this; nobody else does. */
WEIR_MUST_CHECK enum weir_status assemble_store(const struct store_options *options, struct store **ret_store,
                                                struct weir_error *error);
/* "in_process"; WEIR_INVALID_ARGUMENT names the known engines. */
WEIR_MUST_CHECK enum weir_status assemble_engine(const char *name, const struct in_process_options *options,
                                                 struct engine **ret_engine, struct weir_error *error);

#endif
