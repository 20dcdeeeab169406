/* The checks of `weir doctor` about the secrets and the variables of steps. */
#ifndef WEIR_CLI_VERBS_DOCTOR_SECRETS_H
#define WEIR_CLI_VERBS_DOCTOR_SECRETS_H

#include <jansson.h>

#include "cli/settings/settings.h"
#include "store/store.h"

/* Takes one warning, a sentence that ends with the remedy. */
typedef void secrets_warning(void *context, const char *text);

/* Examines, for one node of the settings, the secrets of the workflows whose executions come to its group. It finds
 * missing ones, unusable ones, and files that every user of the machine may read. `workflows`: rows of LIST_WORKFLOWS
 * with `definition` as JSON. `default_group`: of a workflow that names none. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status doctor_secrets_check_node(const struct settings *settings, const char *default_group,
                                                           const json_t *workflows, secrets_warning *warn, void *context,
                                                           struct weir_error *error);
/* Reports the executions that wait because a node lacked a secret. */
WEIR_MUST_CHECK enum weir_status doctor_secrets_check_waiting(struct store *store, secrets_warning *warn, void *context,
                                                              struct weir_error *error);

#endif
