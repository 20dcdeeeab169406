/* The migration of an execution to another version of its workflow.
 *
 *     migration_judge()  reads the execution, the version and the steps on record
 *     migration_apply()  in the same write transaction: no claim and no record comes between the two
 *
 * A migration changes the definition of the row. A version that needs other handlers is of another lane, so the news have
 * the item as gone from one lane and new in the other. Threads: that of the connection.
 */
#ifndef WEIR_STORE_SQLITE_MIGRATION_H
#define WEIR_STORE_SQLITE_MIGRATION_H

#include "store/sqlite/sqlite_store.h"

enum { MIGRATION_STEPS_MAX = 640 };

struct migration {
    const char *id;
    bool fits;
    /* The refusal (refusal_of_migration()), when it does not fit: */
    char outcome[16];
    char state[16];
    char steps[MIGRATION_STEPS_MAX];
    /* Otherwise: */
    int from_version;
    int64_t to_definition;
    int64_t to_demand;
    int64_t lane_id;
    int64_t rank;
    int64_t fence;
    int phase;
    bool is_retimed; /* the timeout of the execution is another */
};

/* Fills `ret_migration`; `id` must stay. */
WEIR_MUST_CHECK enum weir_status migration_judge(struct connection *connection, const char *id, int to_version,
                                                 struct migration *ret_migration, struct weir_error *error);
/* Of one that fits. */
WEIR_MUST_CHECK enum weir_status migration_apply(struct write *write, const struct migration *migration,
                                                 struct weir_error *error);

#endif
