/* Encodes the arguments of one statement as libpq wants them (the letters are in link.h). Numbers, arrays and bytes go in
 * binary: no escaping, no parsing, and a set of a thousand rows is one parameter. */
#ifndef WEIR_STORE_POSTGRES_LINK_PARAMETERS_H
#define WEIR_STORE_POSTGRES_LINK_PARAMETERS_H

#include <libpq-fe.h>
#include <stdarg.h>

#include "base/text.h"
#include "store/postgres/link/link.h"

struct parameters {
    int count;
    Oid types[LINK_PARAMETERS_MOST];
    const char *values[LINK_PARAMETERS_MOST];
    int lengths[LINK_PARAMETERS_MOST];
    int formats[LINK_PARAMETERS_MOST]; /* 0 text, 1 binary */
};

/* The values point into `scratch` and into the caller's arguments. WEIR_INVALID_ARGUMENT: a text that is not a uuid;
 * WEIR_OUT_OF_MEMORY. */
enum weir_status parameters_encode(struct parameters *parameters, struct text *scratch, const char *types, va_list values,
                                   struct weir_error *error);

#endif
