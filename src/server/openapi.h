/* The description of the API for programs (OpenAPI 3.1), made from the table of routes, the table of problems and the
 * schemas of the build (tools/openapi_schemas.py). */
#ifndef WEIR_SERVER_OPENAPI_H
#define WEIR_SERVER_OPENAPI_H

#include <jansson.h>

/* The caller releases it. NULL: no memory. Any thread. */
json_t *openapi_make(void);

#endif
