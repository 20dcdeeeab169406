/* The free space where the file of a store is, for doctor, status and why.
 *
 * A full disk is the one cause that no node can write into the store: heartbeats fail like all else, so the store shows
 * only that its nodes are silent. Reads the file system; one thread. */
#ifndef WEIR_CLI_VERBS_DISK_H
#define WEIR_CLI_VERBS_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* The file of a sqlite: URL; NULL for other stores. */
const char *disk_store_file(const char *url);
/* False for a store without a file of this machine, and when the file system does not answer. */
bool disk_free_mib(const char *url, uint64_t *ret_mib);
/* Less than one MiB is free there, so a write may fail at any time. */
bool disk_is_full(const char *url);

#endif
