/* The schedules that definitions own, as publish_with_schedules() takes them. */
#ifndef WEIR_STORE_POSTGRES_DEFINITION_SCHEDULES_H
#define WEIR_STORE_POSTGRES_DEFINITION_SCHEDULES_H

#include "store/driver.h"
#include "store/postgres/link/link.h"

/* Bytes of the unknown name, or of the definition, in the answer of set_schedule(). */
enum { SCHEDULE_UNKNOWN_MAX = WORKSPACE_NAME_MAX + WORKFLOW_NAME_MAX + 2 };

/* A JSON array of the arguments of set_schedule(), of the allocator; "[]" for none. WEIR_OUT_OF_MEMORY only. */
enum weir_status definition_schedules_write(const struct definition_schedules *schedules, char **ret_text,
                                            struct weir_error *error);
/* The refusal of set_schedule(), whose answer this is. `unknown`: "" = it has none. */
enum weir_status schedule_refuse_set(struct link *link, const char *name, enum weir_status status, const char *unknown,
                                     struct weir_error *error);

#endif
