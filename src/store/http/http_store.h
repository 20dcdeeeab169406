/* The driver for a store behind the REST API of a weir server: `--store http://HOST:PORT`.
 *
 * Each verb of clients is a request, and its answer is that of the same verb in the server. So the command line needs no
 * code of its own for servers. The verbs of nodes are refused: a node needs the store itself, because leases, fences and
 * rounds are too frequent and too exact for a second hop.
 *
 * A handle has a connection of its own, made at its first call. */
#ifndef WEIR_STORE_HTTP_HTTP_STORE_H
#define WEIR_STORE_HTTP_HTTP_STORE_H

#include "store/driver.h"

extern const struct store_driver http_store_driver;

#endif
