/* Included before every file that the extension is made of. All calls of SQLite go to the library of the host program,
 * which hands its functions to the extension when it loads it. */
#ifndef WEIR_SQLITE_EXTENSION_API_H
#define WEIR_SQLITE_EXTENSION_API_H

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

#endif
