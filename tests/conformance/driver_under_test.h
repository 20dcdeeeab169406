/* The store driver that a conformance program runs on. One file per driver implements this (sqlite_under_test.c); the tests
 * themselves know only store.h and this header, so a new driver passes the suite by adding its file to meson.build. */
#ifndef WEIR_TESTS_CONFORMANCE_DRIVER_UNDER_TEST_H
#define WEIR_TESTS_CONFORMANCE_DRIVER_UNDER_TEST_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "store/store.h"

/* Both clocks of a virtual machine; time passes only when a test says so. */
struct virtual_clock {
    _Atomic int64_t wall_us;
    _Atomic int64_t boot_us;
    struct clock clock;
};

struct driver_under_test {
    struct virtual_clock time;
    char url[256];
    char place[200]; /* the driver's own: a folder, a database */
};

/* An empty place for a store, without a schema. */
void driver_make(struct driver_under_test *driver);
/* One that has the schema already where the driver makes that sooner so; else the same. store_migrate() does the rest. */
void driver_make_migrated(struct driver_under_test *driver);
/* Removes all of it. */
void driver_remove(struct driver_under_test *driver);
/* Lets store time pass, and both clocks with it. */
void driver_pass(struct driver_under_test *driver, int64_t duration_us);
/* Sets the clock that an operator can set forward or back by so much: that of the server, or the wall clock of the machine.
 * No time passes. */
void driver_set_clock(struct driver_under_test *driver, int64_t by_us);
/* Opens a handle of its own on the place, on the virtual clock. `events` may be NULL. */
struct store *driver_open(struct driver_under_test *driver, struct event_bus *events);
/* The rows of a statement as an array of objects (NULL columns are null, bytes are strings). For tables and views whose
 * columns all drivers share. It may also change rows, behind the store's back. */
json_t *driver_rows(struct driver_under_test *driver, const char *sql);
/* The rows of steps in the archive, also those that no reader sees. */
int64_t driver_archived_steps(struct driver_under_test *driver);
/* How the driver names a live item to the scheduler (struct assignment), and which execution that is. An item that is not
 * there gets a key that no item has. */
void driver_item_key(struct driver_under_test *driver, const char *id, uint8_t *key);
void driver_item_of_key(struct driver_under_test *driver, const uint8_t *key, char *id);
/* From now on a transaction fails that assigns an item of a workspace and leaves more held items of it than it has slots.
 */
void driver_guard_caps(struct driver_under_test *driver);
/* From now on the database refuses each start, step and end of one execution, as a trigger of the user's may. NULL = no
 * longer. */
void driver_refuse(struct driver_under_test *driver, const char *id);

#endif
