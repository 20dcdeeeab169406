/* Publishes the workflows of the demo and keeps its workspaces busy.
 *
 * One wave of a workspace is one transaction. Its steps sleep, so that the load costs the machine little; they last long
 * enough that a node has some of them at any time. The number of all executions is bounded, since each stays on record.
 */
#include "cli/verbs/demo_load.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/output/json_fields.h"
#include "definition/definition.h"

#define LOAD_WORKFLOW "busy-hour"
#define LOAD_FILE LOAD_WORKFLOW ".yaml"
enum { WAVE_SLOTS = 3, WAVE_MOST = 60, PAUSE_FIRST_S = 2 };

static const char load_yaml[] = "name: " LOAD_WORKFLOW "\nsteps:\n  work:\n    exec: [sleep, \"3\"]\n    timeout: 1m\n";

enum weir_status demo_publish(struct store *store, const char *text, size_t length, const char *file,
                              struct weir_error *error)
{
    INVARIANT(store != NULL && text != NULL && file != NULL);
    struct definition *definition = NULL;
    struct published published;
    struct text canonical = {.max = DEFINITION_BYTES_MAX};
    enum weir_status status = definition_read(text, length, file, &definition, error);
    if (status == WEIR_OK) {
        status = definition_write(definition, &canonical, error);
    }
    if (status == WEIR_OK) {
        status = store_publish(store, definition->name, definition->workspace, canonical.data, NULL, &published, error);
    }
    text_close(&canonical);
    definition_close(definition);
    return status;
}

/* Requests may be refused one by one: the user may have disabled the workflow or deleted the workspace. */
static enum weir_status enqueue_wave(struct demo_load *load, struct store *store, const char *workspace, size_t count,
                                     struct weir_error *error)
{
    struct enqueue_request *requests = calloc(count, sizeof *requests);
    struct enqueue_result *results = calloc(count, sizeof *results);
    enum weir_status status = requests == NULL || results == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        requests[i] = (struct enqueue_request){.workspace = workspace, .workflow = LOAD_WORKFLOW};
    }
    if (status == WEIR_OK) {
        status = store_enqueue(store, requests, count, results, error);
    }
    load->enqueued += status == WEIR_OK ? (int64_t)count : 0;
    free(requests);
    free(results);
    return status;
}

/* How many the workspace gets now; 0 = it has work, or its pause is not over. */
static size_t wave_due(struct demo_load *load, size_t place, const json_t *row, int64_t now_us)
{
    int64_t *idle_since_us = &load->idle_since_us[place];
    int64_t pause_us = (PAUSE_FIRST_S + (int64_t)place) * MICROSECONDS_PER_SECOND;
    int64_t wave = WAVE_SLOTS * field_number(row, "slots_max", 0);
    if (field_number(row, "pending", 0) > 0 || field_number(row, "slots_used", 0) > 0) {
        *idle_since_us = 0;
        return 0;
    }
    if (*idle_since_us == 0) {
        *idle_since_us = now_us;
    }
    if (now_us < *idle_since_us + pause_us || load->enqueued >= DEMO_LOAD_MOST) {
        return 0;
    }
    *idle_since_us = 0;
    return (size_t)(wave < WAVE_MOST ? wave : WAVE_MOST);
}

enum weir_status demo_load_step(struct demo_load *load, struct store *store, size_t place, const json_t *row,
                                struct weir_error *error)
{
    INVARIANT(load != NULL && store != NULL && place < DEMO_LOAD_WORKSPACES_MAX);
    const char *name = json_string_value(json_object_get(row, "name"));
    size_t count = name == NULL ? 0 : wave_due(load, place, row, clock_boot(clock_system()));
    enum weir_status status = WEIR_OK;
    if (count > 0 && !load->is_published) {
        status = demo_publish(store, load_yaml, sizeof load_yaml - 1, LOAD_FILE, error);
        load->is_published = status == WEIR_OK;
    }
    return count > 0 && status == WEIR_OK ? enqueue_wave(load, store, name, count, error) : status;
}
