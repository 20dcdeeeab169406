/* A hash of texts for tables in memory: quick, and good in every bit, so that a table may use the lowest ones.
 *
 * It reads eight bytes at a time, where text_hash() multiplies for each byte: an id of an execution takes six steps in
 * place of 36. Machines of another byte order give other numbers, so nothing that leaves the process may depend on it.
 */
#ifndef WEIR_BASE_TABLE_HASH_H
#define WEIR_BASE_TABLE_HASH_H

#include <stdint.h>

/* Any text; the same text has one number within a process. Cannot fail. */
uint64_t table_hash(const char *string);

#endif
