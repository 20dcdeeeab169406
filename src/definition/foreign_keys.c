/* The hints about keys that other systems have (foreign_keys.h).
 *
 * An error names one unknown key of a map, and lists the keys that exist, or the nearest one. A list of twenty keys helps
 * no reader who looks for `run` or `depends_on`, so the hint shows the words of weir for what was meant. Other unknown keys
 * of the map get theirs with their own error.
 */
#include "definition/foreign_keys.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct foreign_key {
    const char *key;
    const char *hint;
};

#define HINT_SCHEDULE "write schedules: {NAME: {cron: \"30 4 * * *\", workspaces: [acme]}}"
#define HINT_PLAN "the plan of a workspace is the limit: `weir plan set NAME --max-concurrent N`"
#define HINT_STEP_RETRY "a step repeats itself: steps: {NAME: {retry: {attempts: 3}, exec: [...]}}"
#define HINT_PARAMS "params need no declaration: a step reads them as ${.input.NAME}"
#define HINT_STEPS "write steps: {NAME: {exec: [...]}, NEXT: {needs: [NAME], exec: [...]}}"

static const struct foreign_key of_definition[] = {{"schedule", HINT_SCHEDULE},
                                                   {"cron", HINT_SCHEDULE},
                                                   {"concurrency", HINT_PLAN},
                                                   {"max_concurrent", HINT_PLAN},
                                                   {"retry", HINT_STEP_RETRY},
                                                   {"retries", HINT_STEP_RETRY},
                                                   {"input", HINT_PARAMS},
                                                   {"inputs", HINT_PARAMS},
                                                   {"params", HINT_PARAMS},
                                                   {"parameters", HINT_PARAMS},
                                                   {"jobs", HINT_STEPS},
                                                   {"tasks", HINT_STEPS},
                                                   {NULL, NULL}};

#define HINT_EXEC "write exec: [PROGRAM, ARGUMENT], or for a line of the shell exec: [sh, -c, \"LINE\"]"
#define HINT_NEEDS "write needs: [STEP]; steps without needs run at the same time"
#define HINT_WHEN "write when: ${.input.NAME}"
#define HINT_RETRY "write retry: {attempts: 3, backoff: 10s}"
#define HINT_HTTP "write http: {url: \"https://...\", method: POST}"
#define HINT_START "write start: {workflow: NAME, params: {...}}, with for_each and max_parallel inside of it"

static const struct foreign_key of_step[] = {{"run", HINT_EXEC},        {"command", HINT_EXEC},
                                             {"cmd", HINT_EXEC},        {"script", HINT_EXEC},
                                             {"shell", HINT_EXEC},      {"depends_on", HINT_NEEDS},
                                             {"dependsOn", HINT_NEEDS}, {"after", HINT_NEEDS},
                                             {"if", HINT_WHEN},         {"condition", HINT_WHEN},
                                             {"retries", HINT_RETRY},   {"attempts", HINT_RETRY},
                                             {"backoff", HINT_RETRY},   {"url", HINT_HTTP},
                                             {"method", HINT_HTTP},     {"workflow", HINT_START},
                                             {"child", HINT_START},     {"for_each", HINT_START},
                                             {"foreach", HINT_START},   {"max_parallel", HINT_START},
                                             {"parallel", HINT_START},  {NULL, NULL}};

void foreign_keys_hint(enum foreign_place place, const struct yaml_node *map, struct weir_error *error)
{
    INVARIANT(map != NULL);
    const struct foreign_key *table = place == FOREIGN_IN_STEP ? of_step : of_definition;
    for (size_t i = 0; map->kind == YAML_MAP && i < map->count; i++) {
        for (const struct foreign_key *foreign = table; foreign->key != NULL; foreign++) {
            char named[64];
            (void)snprintf(named, sizeof named, "unknown key \"%s\"", foreign->key);
            if (strcmp(map->keys[i]->text, foreign->key) == 0 && error != NULL && strstr(error->message, named) != NULL) {
                error_hint(error, "%s", foreign->hint);
            }
        }
    }
}
