/* The schedules of a definition that is published: the section `schedules` of its text as requests that are checked.
 *
 * A definition owns its schedules. Each publication sets those of its text, and removes the others that the definition
 * owns, in the transaction of the version. It does so also when the newest version has the text. docs/design/schedules.md
 * has the reasons. For the verbs of the store and the drivers.
 */
#ifndef WEIR_STORE_DEFINITION_SCHEDULES_H
#define WEIR_STORE_DEFINITION_SCHEDULES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/schedules.h"

struct store;

struct owned_schedule {
    struct schedule_request request; /* with defaults; its workflow is the definition's */
    int64_t due_us;                  /* TIME_NEVER: its last time has passed */
};

struct definition_schedules {
    struct owned_schedule *items; /* in the order of the text */
    size_t count;
    json_t *text; /* the rest belongs to this and to the arena */
    struct arena arena;
};

/* Reads and checks the schedules of a canonical text. `name`: of the workflow; `workspace`: its owner or NULL. A text
 * without schedules, also one that is no definition, gives none; so does each for a server as the store, which reads the
 * text itself. Errors: those of store_schedule_set(), whose messages begin with DEFINITION_SCHEDULE_REFUSAL. A last time
 * that has passed is accepted, because a file is published again and again. The caller closes it after WEIR_OK. */
WEIR_MUST_CHECK enum weir_status definition_schedules_open(struct store *store, const char *name, const char *workspace,
                                                           const char *text, struct definition_schedules *ret_schedules,
                                                           struct weir_error *error);
void definition_schedules_close(struct definition_schedules *schedules);

/* The message of a refusal names the schedule first, so that the place in the file can be shown. `error` may be NULL. */
void definition_schedule_prefix(struct weir_error *error, const char *name);

/* All checks of store_schedule_set(). *ret_request: with defaults instead of zeros. *ret_due_us: the first time; 0 = a
 * server as the store knows it; TIME_NEVER with `may_be_over` alone: its last time has passed. */
WEIR_MUST_CHECK enum weir_status schedule_prepare(struct store *store, const struct schedule_request *request,
                                                  bool may_be_over, struct schedule_request *ret_request,
                                                  int64_t *ret_due_us, struct weir_error *error);

#endif
