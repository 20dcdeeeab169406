/* Reading the secrets of a step: the names of values that the node has (base/secret.h). Part of definition_read()
 * (definition_reader.c).
 *
 * The form depends on the kind: an exec step maps variables to names, and a handler lists names. An http step maps
 * headers to names, and has `bearer` and `sign` in its own map. A name must be fixed: with an expression, input would
 * choose the secret. */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/secret.h"
#include "definition/code_variable.h"
#include "definition/definition_internal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

enum weir_status reader_take_secret_name(struct definition_reader *reader, const struct yaml_node *node,
                                         const char **ret_name)
{
    enum weir_status status = reader_take_text(reader, node, "the name of a secret", ret_name);
    if (status == WEIR_OK && strstr(*ret_name, "${") != NULL) {
        return FAIL(reader, node, "the name of a secret must be fixed: an expression would let input choose the secret");
    }
    if (status == WEIR_OK && !secret_name_is_valid(*ret_name)) {
        FAIL(reader, node, "\"%.64s\" is no name of a secret", *ret_name);
        error_hint(reader->error, "a name has 1 to %d letters, digits, _, - and ., and starts with a letter, digit or _",
                   SECRET_NAME_MAX);
        return reader->source.status;
    }
    return status;
}

/* A secret would replace the value of the other variable, or the other way round. */
static enum weir_status check_secret_variable(struct definition_reader *reader, const struct yaml_node *node,
                                              const struct step_exec *exec, const char *variable)
{
    bool is_twice = false;
    for (size_t i = 0; i < exec->env_count; i++) {
        is_twice = is_twice || strcmp(exec->env[i].name, variable) == 0;
    }
    for (size_t i = 0; i < exec->env_from_count; i++) {
        is_twice = is_twice || strcmp(exec->env_from[i], variable) == 0;
    }
    if (is_twice) {
        return FAIL(reader, node, "%.64s is in \"secrets\" and in \"env\" or \"env_from\"", variable);
    }
    return code_variable_is(variable)
               ? FAIL(reader, node, "%.64s makes a program run code, so it cannot hold a secret", variable)
               : WEIR_OK;
}

/* A secret would replace the value of the other header, or be sent beside it. */
static enum weir_status check_secret_header(struct definition_reader *reader, const struct yaml_node *node,
                                            const struct step_http *http, const char *header)
{
    for (size_t i = 0; i < http->header_count; i++) {
        if (strcasecmp(http->headers[i].name, header) == 0) {
            return FAIL(reader, node, "the header %.64s is in \"secrets\" and in \"headers\"", header);
        }
    }
    return http->bearer != NULL && strcasecmp(header, "Authorization") == 0
               ? FAIL(reader, node, "the header Authorization is in \"secrets\", and \"bearer\" sends it too")
               : WEIR_OK;
}

/* The entry at `i` of `secrets`; `taken` are those before it. */
static enum weir_status read_secret(struct definition_reader *reader, const struct yaml_node *node, size_t i,
                                    const struct step *step, struct step_secret *taken)
{
    enum weir_status status = reader_take_secret_name(reader, node->values[i], &taken[i].name);
    if (status != WEIR_OK) {
        return status;
    }
    switch (step->kind) {
    case STEP_EXEC:
        status = reader_take_variable_name(reader, node->keys[i], &taken[i].variable);
        return status == WEIR_OK ? check_secret_variable(reader, node->keys[i], &step->exec, taken[i].variable) : status;
    case STEP_HTTP:
        status = reader_take_header_name(reader, node->keys[i], &taken[i].variable);
        for (size_t j = 0; j < i && status == WEIR_OK; j++) {
            if (strcasecmp(taken[j].variable, taken[i].variable) == 0) {
                status = FAIL(reader, node->keys[i], "the header %.64s is in \"secrets\" twice", taken[i].variable);
            }
        }
        return status == WEIR_OK ? check_secret_header(reader, node->keys[i], &step->http, taken[i].variable) : status;
    default:
        for (size_t j = 0; j < i && status == WEIR_OK; j++) {
            if (strcmp(taken[j].name, taken[i].name) == 0) {
                status = FAIL(reader, node->values[i], "the secret \"%.64s\" is listed twice", taken[i].name);
            }
        }
        return status;
    }
}

/* The number of secrets, or the kind of the node, is wrong. */
static enum weir_status check_secrets_shape(struct definition_reader *reader, const struct yaml_node *node,
                                            enum step_kind kind)
{
    static const char *const examples[] = {[STEP_EXEC] = "{STRIPE_KEY: stripe_key}: the variable, then the name",
                                           [STEP_HANDLER] = "[stripe_key]",
                                           [STEP_HTTP] = "{X-Api-Key: stripe_key}: the header, then the name"};
    static const char *const articles[] = {[STEP_EXEC] = "an exec", [STEP_HANDLER] = "a handler", [STEP_HTTP] = "an http"};
    bool is_list = kind == STEP_HANDLER;
    if (node->kind == (is_list ? YAML_LIST : YAML_MAP) && node->count > 0 && node->count <= STEP_SECRETS_MAX) {
        return WEIR_OK;
    }
    FAIL(reader, node, "\"secrets\" of %s step must be a %s of 1 to %d secrets", articles[kind], is_list ? "list" : "map",
         STEP_SECRETS_MAX);
    error_hint(reader->error, "write secrets: %s", examples[kind]);
    return reader->source.status;
}

enum weir_status secrets_read(struct definition_reader *reader, const struct yaml_node *node, struct step *step)
{
    const char *own[] = {step->kind == STEP_HTTP ? step->http.bearer : NULL,
                         step->kind == STEP_HTTP ? step->http.sign : NULL};
    size_t listed = node == NULL ? 0 : node->count;
    if (node != NULL && (step->kind == STEP_SLEEP || step_awaits(step) != NULL)) {
        return FAIL(reader, node, "\"secrets\" has no meaning in a %s step",
                    step->kind == STEP_SLEEP        ? "sleep"
                    : step->kind == STEP_START      ? "start"
                    : step->signal.approval != NULL ? "approve"
                                                    : "signal");
    }
    enum weir_status status = node == NULL ? WEIR_OK : check_secrets_shape(reader, node, step->kind);
    if (status != WEIR_OK || (node == NULL && own[0] == NULL && own[1] == NULL)) {
        return status;
    }
    if (listed + (own[0] != NULL) + (own[1] != NULL) > STEP_SECRETS_MAX) {
        return FAIL(reader, node, "the step has more than %d secrets", STEP_SECRETS_MAX);
    }
    struct step_secret *secrets = arena_allocate(reader->arena, (listed + 2) * sizeof *secrets);
    if (secrets == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < listed; i++) {
        secrets[i] = (struct step_secret){.variable = NULL};
        status = read_secret(reader, node, i, step, secrets);
        if (status != WEIR_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        if (own[i] != NULL) {
            secrets[listed++] = (struct step_secret){.name = own[i]};
        }
    }
    step->secrets = secrets;
    step->secret_count = listed;
    return WEIR_OK;
}
