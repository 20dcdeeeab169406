/* The secrets of one attempt of a step: read just before it starts, kept while it runs, overwritten when it ends.
 *
 * An exec step gets them in its environment, a handler by weir_call_secret(). The node keeps the values only to hide them
 * in the output and in the messages of the attempt.
 *
 * Threads: the loop's; for a handler then the thread of its call. Owner: the step or the call, until step_secrets_free().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_SECRETS_H
#define WEIR_ENGINE_IN_PROCESS_STEP_SECRETS_H

#include "base/secret.h"
#include "base/secret_mask.h"
#include "definition/definition.h"
#include "engine/in_process/execution_state.h"
#include "engine/in_process/process.h"

struct step_secrets {
    const struct step *step; /* of the definition, for the names */
    struct secret values[STEP_SECRETS_MAX];
    size_t count;
    struct secret_mask mask;
    struct secret_stream streams[2]; /* stdout and stderr of a process, on their way to the log */
};

/* Reads all secrets of the step; *ret_secrets = NULL for a step without any. WEIR_FAILED: one is missing or unusable; the
 * message names the secret, the node and the remedy. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status step_secrets_read(const struct execution *execution, const struct step *step,
                                                   struct step_secrets **ret_secrets, struct weir_error *error);
/* Overwrites the values. Takes NULL. */
void step_secrets_free(struct step_secrets *secrets);
/* The value under this name, or NULL. */
const char *step_secrets_find(const struct step_secrets *secrets, const char *name);
/* Appends "VARIABLE=value" of each to the environment of the command, whose `strings` must wipe. As
 * process_command_add(). */
WEIR_MUST_CHECK enum weir_status step_secrets_add_to(const struct step_secrets *secrets, struct process_command *command);
/* Hides the values in place; `secrets` may be NULL. Returns the new length. */
size_t step_secrets_hide(const struct step_secrets *secrets, char *bytes, size_t length);
/* Hides the values in JSON that was read. *ret_changed as of secret_mask_json(). `secrets` may be NULL. */
WEIR_MUST_CHECK enum weir_status step_secrets_hide_json(const struct step_secrets *secrets, json_t **value,
                                                        bool *ret_changed);
/* Hides the values in the text of an output, of which *output is an allocation, and parses it: *ret_value. One that is no
 * JSON any more, since a number was hidden, becomes a string. `secrets` may be NULL. Statuses of json_read(). */
WEIR_MUST_CHECK enum weir_status step_secrets_hide_output(const struct step_secrets *secrets, char **output,
                                                          json_t **ret_value, struct weir_error *error);
/* A copy of a message, of which the first `read_max` bytes count: without the values, then cut to `most` bytes and made
 * safe for a terminal. NULL: there is none, or no memory. `secrets` may be NULL. */
char *step_secrets_copy_message(const struct step_secrets *secrets, const char *message, size_t read_max, size_t most);
/* Checks that this node has the secrets of each step that is not done and runs in any case. So an execution does not
 * begin on a node that cannot finish it. A step with `when` is checked when it starts. Statuses of
 * step_secrets_read(). */
WEIR_MUST_CHECK enum weir_status step_secrets_check(const struct execution *execution, struct weir_error *error);

#endif
