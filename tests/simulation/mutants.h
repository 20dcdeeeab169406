/* The parts that the lists of broken variants share: mutants.c (the program and most variants),
 * state_mutants.c, child_mutants.c and lane_mutants.c. */
#ifndef WEIR_TESTS_SIMULATION_MUTANTS_H
#define WEIR_TESTS_SIMULATION_MUTANTS_H

#include "simulation/simulation.h"
#include "store/driver.h"

#define CAUGHT_BY(invariant) (1U << (unsigned)(invariant))

enum { STATE_MUTANTS = 14, CHILD_MUTANTS = 15, LANE_MUTANTS = 6 };
extern const struct mutant state_mutants[STATE_MUTANTS];
extern const struct mutant child_mutants[CHILD_MUTANTS];
extern const struct mutant lane_mutants[LANE_MUTANTS];

/* False: it changed no row. */
bool mutant_change(sqlite3 *database, const char *sql);
/* There is something to break by now. */
bool mutant_is_later(const struct simulation *simulation);
const struct store_driver *mutant_driver(const struct simulation *simulation);
/* Writes the altered copy of the set, which it frees, and copies the outcomes. */
enum weir_status mutant_record(const struct simulation *simulation, struct store *store, int64_t node_id,
                               struct record *forged, struct record *records, size_t count,
                               struct record_summary *ret_summary, struct weir_error *error);
/* Every record is written under the fence that the row has by now. */
enum weir_status mutant_record_under_any_fence(struct simulation *simulation, struct store *store, int64_t node_id,
                                               struct record *records, size_t count, struct record_summary *ret_summary,
                                               struct weir_error *error);

#endif
