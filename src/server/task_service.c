/* The engine gets a handler before the store knows it, and loses it after the scheduler has been told by the node's next
 * heartbeat at the earliest. An execution that arrives in between is put back (`unknown_handler`). */
#include "server/task_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The node reports the names with its next heartbeat, which it sends at once. */
static enum weir_status report_names(struct task_service *service)
{
    char *text = json_dumps(service->names, JSON_COMPACT);
    enum weir_status status = text == NULL ? WEIR_OUT_OF_MEMORY : node_set_handlers(service->node, text, NULL);
    free(text);
    return status;
}

/* The name is in the list. */
static void drop_name(json_t *names, const char *name)
{
    size_t i = 0;
    while (i < json_array_size(names) && strcmp(json_string_value(json_array_get(names, i)), name) != 0) {
        i++;
    }
    (void)json_array_remove(names, i);
}

/* The three places that know a handler change together: the list, the engine, the node. */
static enum weir_status register_handler(void *context, const struct weir_handler *handler)
{
    struct task_service *service = context;
    if (json_array_append_new(service->names, json_string(handler->name)) != 0) {
        return WEIR_OUT_OF_MEMORY;
    }
    enum weir_status status = engine_add_handler(service->engine, handler, NULL);
    if (status == WEIR_OK) {
        status = report_names(service);
        if (status != WEIR_OK) {
            enum weir_status undone = engine_remove_handler(service->engine, handler->name, NULL);
            INVARIANT(undone == WEIR_OK);
        }
    }
    if (status != WEIR_OK) {
        drop_name(service->names, handler->name);
    }
    return status;
}

/* The other way round: the scheduler learns first that nothing may come any more. */
static enum weir_status unregister_handler(void *context, const char *name)
{
    struct task_service *service = context;
    drop_name(service->names, name);
    enum weir_status status = report_names(service);
    if (status != WEIR_OK) {
        (void)json_array_append_new(service->names, json_string(name)); /* the hub tries again */
        return status;
    }
    return engine_remove_handler(service->engine, name, NULL);
}

static void set_places(void *context, size_t places)
{
    struct task_service *service = context;
    engine_bound(service->engine, places);
    node_capacity_changed(service->node);
}

enum weir_status task_service_open(struct task_service *service, const char *group, int64_t lease_us, bool by_workers,
                                   struct engine *engine, struct node *node, struct weir_error *error)
{
    INVARIANT(service != NULL && group != NULL && engine != NULL && node != NULL);
    *service = (struct task_service){.engine = engine, .node = node};
    text_copy(service->group, sizeof service->group, group);
    if (!engine_has(engine, ENGINE_RECORDS_STEPS)) {
        return WEIR_OK; /* the workers of a service belong to the service */
    }
    struct task_hub_options options = {.lease_us = lease_us,
                                       .clock = clock_system(),
                                       .register_handler = register_handler,
                                       .unregister_handler = unregister_handler,
                                       .set_places = by_workers ? set_places : NULL,
                                       .context = service};
    service->names = json_array();
    enum weir_status status =
        service->names == NULL ? error_out_of_memory(error) : task_hub_open(&options, &service->hub, error);
    return status == WEIR_OK ? task_hub_run_thread(service->hub, error) : status;
}

void task_service_stop(struct task_service *service)
{
    if (service->hub != NULL) {
        task_hub_stop(service->hub);
    }
}

void task_service_close(struct task_service *service)
{
    task_hub_close(service->hub);
    json_decref(service->names);
    *service = (struct task_service){.hub = NULL};
}
