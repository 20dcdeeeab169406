/* Reads the secrets of an attempt and hides their values in its results.
 *
 *   1. When an execution is admitted, the secrets of its steps are read and dropped at once. A node without one of them
 *      refuses the execution, which waits without a slot and may start on another node.
 *   2. Each attempt reads its secrets again just before it starts, so a changed file counts without a restart. If one has
 *      gone meanwhile, the step waits and tries again; no program starts without it.
 *   3. While the attempt runs, the values serve to hide them: in its log, result and failure. Their memory is overwritten
 *      when it ends.
 *
 * Values are in no report, no event and no message. Reading a file may take time, so only regular files are read
 * (base/secret.c). The loop's thread runs it; the functions that hide also run in the thread of a handler.
 */
#include "engine/in_process/step_secrets.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/in_process/runner.h"

enum weir_status step_secrets_read(const struct execution *execution, const struct step *step,
                                   struct step_secrets **ret_secrets, struct weir_error *error)
{
    INVARIANT(execution != NULL && step->secret_count <= STEP_SECRETS_MAX && ret_secrets != NULL);
    *ret_secrets = NULL;
    if (step->secret_count == 0) {
        return WEIR_OK;
    }
    struct step_secrets *secrets = calloc(1, sizeof *secrets);
    enum weir_status status = secrets != NULL ? WEIR_OK : error_out_of_memory(error);
    for (size_t i = 0; i < step->secret_count && status == WEIR_OK; i++) {
        status = secret_read(&execution->runner->options.secrets, step->secrets[i].name, &secrets->values[i], error);
        secrets->count += status == WEIR_OK;
    }
    if (status == WEIR_OK) {
        secrets->step = step;
        status = secret_mask_open(&secrets->mask, secrets->values, secrets->count);
    }
    if (status != WEIR_OK) {
        step_secrets_free(secrets);
        if (status != WEIR_OUT_OF_MEMORY) {
            error_prefix(error, "node %s, step %s", execution->node, step->id);
            status = WEIR_FAILED;
        }
        return status;
    }
    *ret_secrets = secrets;
    return WEIR_OK;
}

void step_secrets_free(struct step_secrets *secrets)
{
    if (secrets == NULL) {
        return;
    }
    for (size_t i = 0; i < secrets->count; i++) {
        secret_close(&secrets->values[i]);
    }
    secret_stream_close(&secrets->streams[0]);
    secret_stream_close(&secrets->streams[1]);
    secret_mask_close(&secrets->mask);
    free(secrets);
}

const char *step_secrets_find(const struct step_secrets *secrets, const char *name)
{
    for (size_t i = 0; secrets != NULL && name != NULL && i < secrets->count; i++) {
        if (strcmp(secrets->step->secrets[i].name, name) == 0) {
            return secrets->values[i].value;
        }
    }
    return NULL;
}

enum weir_status step_secrets_add_to(const struct step_secrets *secrets, struct process_command *command)
{
    INVARIANT(secrets != NULL && command->strings.wipes);
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < secrets->count && status == WEIR_OK; i++) {
        struct text variable = {.max = SECRET_BYTES_MAX + 1024, .wipes = true};
        status = text_format(&variable, "%s=%s", secrets->step->secrets[i].variable, secrets->values[i].value);
        status = status == WEIR_OK ? process_command_add(command, variable.data, variable.length) : status;
        command->envc += status == WEIR_OK;
        text_close(&variable);
    }
    return status;
}

size_t step_secrets_hide(const struct step_secrets *secrets, char *bytes, size_t length)
{
    return secrets == NULL ? length : secret_mask_apply(&secrets->mask, bytes, length);
}

enum weir_status step_secrets_hide_json(const struct step_secrets *secrets, json_t **value, bool *ret_changed)
{
    INVARIANT(value != NULL && ret_changed != NULL);
    return secrets == NULL ? WEIR_OK : secret_mask_json(&secrets->mask, value, ret_changed);
}

enum weir_status step_secrets_hide_output(const struct step_secrets *secrets, char **output, json_t **ret_value,
                                          struct weir_error *error)
{
    INVARIANT(output != NULL && *output != NULL && ret_value != NULL);
    size_t before = strlen(*output);
    bool is_changed = false;
    size_t length = step_secrets_hide(secrets, *output, before);
    enum weir_status status = json_read(*output, length, ret_value, error);
    if (status == WEIR_INVALID_ARGUMENT && length < before) {
        *ret_value = json_stringn(*output, length);
        is_changed = true;
        status = *ret_value != NULL ? WEIR_OK : WEIR_OUT_OF_MEMORY;
    }
    status = status == WEIR_OK ? step_secrets_hide_json(secrets, ret_value, &is_changed) : status;
    if (status == WEIR_OK && is_changed) {
        struct text hidden = {.max = 8 * STEP_OUTPUT_BYTES_MAX};
        status = json_write(*ret_value, &hidden, error);
        explicit_bzero(*output, length);
        free(*output);
        *output = hidden.data;
    }
    return status;
}

char *step_secrets_copy_message(const struct step_secrets *secrets, const char *message, size_t read_max, size_t most)
{
    char *copy = message != NULL ? strndup(message, read_max) : NULL;
    if (copy == NULL) {
        return NULL;
    }
    size_t length = step_secrets_hide(secrets, copy, strlen(copy));
    if (length > most) {
        explicit_bzero(copy + most, length - most);
    }
    text_make_safe(copy);
    return copy;
}

enum weir_status step_secrets_check(const struct execution *execution, struct weir_error *error)
{
    INVARIANT(execution != NULL && execution->definition != NULL);
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < execution->step_count && status == WEIR_OK; i++) {
        const struct step *step = &execution->definition->definition->steps[i];
        struct step_secrets *secrets = NULL;
        if (execution->steps[i].phase != PHASE_DONE && step->when == NULL) {
            status = step_secrets_read(execution, step, &secrets, error);
        }
        step_secrets_free(secrets);
    }
    return status;
}
