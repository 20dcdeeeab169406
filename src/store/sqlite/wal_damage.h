/* Notices a write-ahead log that ends at a damaged place.
 *
 * After an unclean end SQLite replays the log up to the first frame with a wrong checksum and silently drops the rest.
 * That is right for the last commit, which a power cut may have torn. It is data loss when a byte in the middle was
 * changed: all later commits were acknowledged. So the first process that opens the store compares. When more than one
 * whole commit follows the place where replaying ended, at least one of them was on disk before, and the log was
 * damaged. The log is then copied to `FILE-wal.damaged-TIME-COMMITS` before SQLite overwrites it, and the copy is the
 * one that `weir store check` reports.
 *
 * The very last commit looks like one that a power cut has torn: it counts as torn.
 */
#ifndef WEIR_STORE_SQLITE_WAL_DAMAGE_H
#define WEIR_STORE_SQLITE_WAL_DAMAGE_H

#include "base/json.h"
#include "store/sqlite/connection.h"

struct event_bus;

/* Whether another connection, of any process, has the log of this file open. Then nothing was replayed since. */
bool wal_is_in_use(const char *path);
/* Looks, copies, reports. Called once, by the first one that opens the file for writing. Best effort. */
void wal_damage_check(struct connection *writer, const char *path, struct event_bus *events);
/* Adds a line for each copy beside the file. */
void wal_damage_list(const char *path, json_t *problems);

#endif
