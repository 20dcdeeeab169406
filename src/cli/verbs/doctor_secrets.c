/* Finds secrets that are missing, unusable, or open to every user.
 *
 *   1. For each node of the settings: each step of the newest versions whose workflow belongs to its group.
 *   2. Each secret is read as the node would read it, and dropped at once. A value is never printed.
 *   3. The variables that `env_from` asks for must be in exec.env_from.
 *
 * The doctor runs in the environment of its caller. Credentials of systemd and variables that only the service
 * has are missing here, so a missing secret is a warning. The second check asks the store instead: it reports what the
 * nodes themselves have found. One thread.
 */
#include "cli/verbs/doctor_secrets.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/shell_quote.h"
#include "definition/definition.h"
#include "queue/item.h"
#include "queue/step.h"

struct examination {
    const struct settings *settings;
    struct secret_sources sources;
    const char *workflow;
    secrets_warning *warn;
    void *context;
};

static void warn_of(const struct examination *examination, const char *format, ...) WEIR_PRINTF(2, 3);

static void warn_of(const struct examination *examination, const char *format, ...)
{
    char text[WEIR_ERROR_MESSAGE_MAX + WEIR_ERROR_HINT_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    examination->warn(examination->context, text);
}

static enum weir_status examine_secret(const struct examination *examination, const char *name)
{
    struct weir_error error = {.message = ""};
    struct secret secret = {.value = NULL};
    struct stat facts;
    char path[PATH_MAX];
    char word[SHELL_WORD_MAX];
    if (name == NULL || !secret_name_is_valid(name)) {
        return WEIR_OK; /* the reader of definitions has refused such a name */
    }
    enum weir_status status = secret_read(&examination->sources, name, &secret, &error);
    secret_close(&secret);
    if (status == WEIR_OUT_OF_MEMORY) {
        return status;
    }
    if (status != WEIR_OK) {
        warn_of(examination,
                "workflow %s: %s (as this user and this environment see it): its steps wait until the node has it",
                examination->workflow, error.message);
    } else if (secret_find_file(&examination->sources, name, path, sizeof path) && stat(path, &facts) == 0 &&
               (facts.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        warn_of(examination, "the file of the secret %s may be read or written by every user (mode %04o): chmod 600 %s",
                name, (unsigned)(facts.st_mode & 07777), shell_quote(path, word));
    }
    return WEIR_OK;
}

static bool is_in_list(const char *const *list, const char *name)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        if (strcmp(list[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static enum weir_status examine_step(const struct examination *examination, const char *id, json_t *step)
{
    json_t *secrets = json_object_get(step, "secrets");
    enum weir_status status = WEIR_OK;
    const char *variable;
    json_t *name;
    size_t i;
    json_object_foreach(secrets, variable, name)
    {
        status = status == WEIR_OK ? examine_secret(examination, json_string_value(name)) : status;
    }
    json_array_foreach(secrets, i, name)
    {
        status = status == WEIR_OK ? examine_secret(examination, json_string_value(name)) : status;
    }
    json_array_foreach(json_object_get(step, "env_from"), i, name)
    {
        const char *asked = json_string_value(name);
        if (asked != NULL && !is_in_list(settings_list(examination->settings, SETTING_EXEC_ENV_FROM), asked)) {
            warn_of(examination,
                    "workflow %s, step %s: env_from asks for %s, and exec.env_from does not allow it: the step fails there",
                    examination->workflow, id, asked);
        }
    }
    return status;
}

enum weir_status doctor_secrets_check_node(const struct settings *settings, const char *default_group,
                                           const json_t *workflows, secrets_warning *warn, void *context,
                                           struct weir_error *error)
{
    struct examination examination = {.settings = settings, .warn = warn, .context = context};
    size_t i;
    json_t *workflow;
    INVARIANT(settings != NULL && warn != NULL);
    if (strcmp(settings_text(settings, SETTING_ENGINE), "in_process") != 0) {
        return WEIR_OK;
    }
    enum weir_status status =
        secret_sources_open(&examination.sources, settings_text(settings, SETTING_SECRETS_DIRECTORY), error);
    json_array_foreach(workflows, i, workflow)
    {
        const json_t *definition = json_object_get(workflow, "definition");
        const char *group = json_string_value(json_object_get(definition, "executor_group"));
        const char *id;
        json_t *step;
        examination.workflow = json_string_value(json_object_get(definition, "name"));
        if (examination.workflow == NULL ||
            strcmp(group != NULL ? group : default_group, settings_text(settings, SETTING_EXECUTOR_GROUP)) != 0) {
            continue;
        }
        for (enum step_section section = SECTION_STEPS; section <= SECTION_FINALLY; section++) {
            json_object_foreach(json_object_get(definition, step_section_name(section)), id, step)
            {
                json_t *undo = json_object_get(step, "undo");
                status = status == WEIR_OK ? examine_step(&examination, id, step) : status;
                status = status == WEIR_OK && undo != NULL ? examine_step(&examination, id, undo) : status;
            }
        }
    }
    secret_sources_close(&examination.sources);
    return status == WEIR_OK ? WEIR_OK : error_out_of_memory(error);
}

enum weir_status doctor_secrets_check_waiting(struct store *store, secrets_warning *warn, void *context,
                                              struct weir_error *error)
{
    struct list_options waiting = {
        .kind = LIST_EXECUTIONS, .filter = {.states = 1U << ITEM_PENDING, .error_code = STEP_SECRET_MISSING}, .limit = 1};
    json_t *page = NULL;
    INVARIANT(store != NULL && warn != NULL);
    enum weir_status status = store_list(store, &waiting, &page, error);
    const json_t *first = json_array_get(json_object_get(page, "items"), 0);
    const char *text = json_string_value(json_object_get(first, "error"));
    if (status == WEIR_OK && first != NULL) {
        const struct examination examination = {.warn = warn, .context = context};
        warn_of(&examination, "executions wait for a secret, as %s: %s; `weir list --where error_code=%s` lists them",
                json_string_value(json_object_get(first, "id")), text != NULL ? text : "its node lacked it",
                STEP_SECRET_MISSING);
    }
    json_decref(page);
    return status;
}
