/* Copies and checks the options of an engine.
 *
 * The caller may free its options after open, so every string is copied. The defaults depend on the machine: one handler
 * thread more than processors, one spare thread for workspaces without a thread.
 * Steps inherit PATH, HOME and LANG, and of the other
 * variables those that the list for `env_from` allows. With a list of allowed programs the PATH keeps only its absolute
 * parts, because a relative part would let the `cwd` of a step choose the program. It runs once, in the thread that opens
 * the engine; the loop and the handlers only read the result.
 */
#include "engine/in_process/runner_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "definition/definition.h"
#include "engine/in_process/handler_pool.h"

static enum weir_status copy_allow_list(struct runner_options *options, const char *const *list, struct weir_error *error)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    if (list == NULL) {
        return WEIR_OK;
    }
    options->exec_allow_list = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; i < count && options->exec_allow_list != NULL; i++) {
        if (list[i][0] != '/' && strchr(list[i], '/') != NULL) {
            return error_set(
                error, WEIR_INVALID_ARGUMENT,
                "the allowed program \"%.200s\" is a relative path, which means another program in each `cwd`: "
                "give an absolute path or a name",
                list[i]);
        }
        options->exec_allow_list[i] = strdup(list[i]);
        if (options->exec_allow_list[i] == NULL) {
            return error_out_of_memory(error);
        }
    }
    return options->exec_allow_list != NULL ? WEIR_OK : error_out_of_memory(error);
}

#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"

/* Drops the relative parts of "PATH=...", an empty part included. With a list of programs the `cwd` of a step must not
 * decide which file a name means. NULL when out of memory. */
static char *keep_absolute_parts(const char *variable)
{
    static const char name[] = "PATH=";
    struct text kept = {.max = strlen(variable) + sizeof PATH_DEFAULT + sizeof name};
    enum weir_status status = text_add_string(&kept, name);
    for (const char *part = variable + strlen(name); *part != '\0' && status == WEIR_OK;) {
        size_t length = strcspn(part, ":");
        if (*part == '/') {
            status = text_format(&kept, "%s%.*s", kept.length > strlen(name) ? ":" : "", (int)length, part);
        }
        part += length + (part[length] == ':');
    }
    if (status == WEIR_OK && kept.length == strlen(name)) {
        status = text_add_string(&kept, PATH_DEFAULT); /* an empty PATH would be the current directory */
    }
    if (status != WEIR_OK) {
        text_close(&kept);
    }
    return kept.data;
}

/* A host may change its environment while the loop runs. */
static enum weir_status copy_temporary_directory(struct runner_options *options, struct weir_error *error)
{
    const char *directory = getenv("TMPDIR");
    options->temporary_directory = strdup(directory != NULL && directory[0] == '/' ? directory : "/tmp");
    return options->temporary_directory != NULL ? WEIR_OK : error_out_of_memory(error);
}

/* Copies the variables that steps inherit. Steps see no other variable of the node: some hold URLs of stores and tokens. */
static enum weir_status copy_environment(struct runner_options *options, struct weir_error *error)
{
    static const char *const names[INHERITED_VARIABLES] = {"PATH", "HOME", "LANG"};
    for (size_t i = 0; i < INHERITED_VARIABLES; i++) {
        const char *value = getenv(names[i]);
        value = value == NULL && i == 0 ? PATH_DEFAULT : value;
        if (value != NULL && asprintf(&options->inherited[i], "%s=%s", names[i], value) < 0) {
            options->inherited[i] = NULL;
            return error_out_of_memory(error);
        }
    }
    if (options->exec_allow_list != NULL) {
        char *path = keep_absolute_parts(options->inherited[0]);
        free(options->inherited[0]);
        options->inherited[0] = path;
        return path != NULL ? WEIR_OK : error_out_of_memory(error);
    }
    return WEIR_OK;
}

/* Copies the variables that `env_from` may ask for, so that a host may change its environment later. */
static enum weir_status copy_env_from(struct runner_options *options, const char *const *list, struct weir_error *error)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    options->env_from = calloc(count + 1, sizeof(char *));
    options->env_from_variables = calloc(count + 1, sizeof(char *));
    bool is_fine = options->env_from != NULL && options->env_from_variables != NULL;
    for (size_t i = 0; i < count && is_fine; i++) {
        const char *value = getenv(list[i]);
        options->env_from[i] = strdup(list[i]);
        is_fine = options->env_from[i] != NULL;
        if (is_fine && value != NULL && asprintf(&options->env_from_variables[i], "%s=%s", list[i], value) < 0) {
            options->env_from_variables[i] = NULL;
            is_fine = false;
        }
    }
    return is_fine ? WEIR_OK : error_out_of_memory(error);
}

/* The address becomes a header of requests and is completed by functions, so it has no query and no character that ends a
 * line. */
static enum weir_status copy_callback_url(struct runner_options *options, const char *address, struct weir_error *error)
{
    size_t length = address == NULL ? 0 : strlen(address);
    if (length == 0) {
        return WEIR_OK;
    }
    size_t scheme = strncmp(address, "http://", strlen("http://")) == 0     ? strlen("http://")
                    : strncmp(address, "https://", strlen("https://")) == 0 ? strlen("https://")
                                                                            : length;
    bool is_fine = length > scheme && address[scheme] != '/' && length <= CALLBACK_ADDRESS_MAX;
    for (size_t i = 0; i < length && is_fine; i++) {
        is_fine = address[i] > ' ' && address[i] != 127 && strchr("?#\"<>\\", address[i]) == NULL;
    }
    if (!is_fine) {
        error_set(error, WEIR_INVALID_ARGUMENT, "http_step.callback_address: \"%.100s\" is no address of a server",
                  address);
        error_hint(error, "for example https://weir.example.com");
        return WEIR_INVALID_ARGUMENT;
    }
    while (address[length - 1] == '/') {
        length--;
    }
    if (asprintf(&options->callback_url, "%.*s/v1/callbacks", (int)length, address) < 0) {
        options->callback_url = NULL;
        return error_out_of_memory(error);
    }
    return WEIR_OK;
}

/* Leaves one thread in HANDLER_SPARE_PART to workspaces without a thread. Threads of the default number get one spare. */
static void set_handler_threads(struct runner_options *options, size_t wanted)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = wanted > 0 ? wanted : processors > 0 ? (size_t)processors + 1 : 2;
    options->handler_threads_spare = wanted == 0 ? 1 : threads / HANDLER_SPARE_PART;
    options->handler_threads = threads > HANDLER_THREADS_MAX ? HANDLER_THREADS_MAX : threads;
}

enum weir_status runner_options_copy(struct runner_options *options, const struct in_process_options *from,
                                     struct weir_error *error)
{
    INVARIANT(options != NULL && from != NULL);
    *options = (struct runner_options){
        .allow_exec = from->allow_exec,
        .allow_http = from->http_allow_list != NULL,
        .max_running = from->max_running > 0 ? from->max_running : IN_PROCESS_RUNNING_DEFAULT,
        .max_parallel_steps = from->max_parallel_steps > 0 ? from->max_parallel_steps : IN_PROCESS_PARALLEL_DEFAULT,
        .park_after_us = from->park_after_us > 0 ? from->park_after_us : PARK_AFTER_US};
    set_handler_threads(options, from->handler_threads);
    enum weir_status status = WEIR_OK;
    status = status == WEIR_OK ? copy_allow_list(options, from->exec_allow_list, error) : status;
    status = status == WEIR_OK ? copy_env_from(options, from->env_from_list, error) : status;
    status = status == WEIR_OK ? address_rules_open(&options->http_rules, from->http_allow_list, error) : status;
    status = status == WEIR_OK ? copy_callback_url(options, from->callback_address, error) : status;
    status = status == WEIR_OK ? secret_sources_open(&options->secrets, from->secrets_directory, error) : status;
    status = status == WEIR_OK ? copy_temporary_directory(options, error) : status;
    return status == WEIR_OK ? copy_environment(options, error) : status;
}

void runner_options_close(struct runner_options *options)
{
    INVARIANT(options != NULL);
    for (size_t i = 0; options->exec_allow_list != NULL && options->exec_allow_list[i] != NULL; i++) {
        free(options->exec_allow_list[i]);
    }
    free(options->exec_allow_list);
    for (size_t i = 0; options->env_from_variables != NULL && options->env_from != NULL && options->env_from[i] != NULL;
         i++) {
        free(options->env_from[i]);
        free(options->env_from_variables[i]);
    }
    free(options->env_from);
    free(options->env_from_variables);
    address_rules_close(&options->http_rules);
    secret_sources_close(&options->secrets);
    free(options->temporary_directory);
    free(options->callback_url);
    for (size_t i = 0; i < INHERITED_VARIABLES; i++) {
        free(options->inherited[i]);
    }
}
