/* Two engines in one program: steps that are C functions, and workflows on a Temporal service.
 *
 *     cc two_engines.c $(pkg-config --cflags --libs weir) -o two_engines
 *     temporal server start-dev &              and a worker that polls "q" for the workflow type "Noop"
 *     ./two_engines both.db 127.0.0.1:7233 q
 *
 * Each node has a group of its own. Each workflow names its group in `executor_group`, so an enqueue need not name one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

static void greet(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, "\"hello\"");
}

static void must(enum weir_status status, const char *doing, const struct weir_error *error)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: %s (%s)\n", doing, error->message, weir_status_name(status));
        exit(1);
    }
}

static void run(struct weir *weir, const char *workflow)
{
    char id[WEIR_ID_SIZE];
    enum weir_end end;
    struct weir_error error;
    struct weir_request request = {.workspace = "acme", .workflow = workflow};
    must(weir_enqueue(weir, &request, id, &error), "enqueueing", &error);
    must(weir_wait(weir, id, (int64_t)60 * 1000000, &end, NULL, &error), "waiting", &error);
    printf("%s %s\n", workflow, end == WEIR_END_COMPLETED ? "completed" : "did not complete");
}

int main(int argc, char **argv)
{
    static const char here[] = "name: here\nsteps:\n  only: {handler: greet}\n";
    static const char outside[] = "name: outside\nexecutor_group: temporal\ntemporal: {workflow_type: Noop}\n";
    if (argc != 4) {
        fprintf(stderr, "usage: two_engines STORE ADDRESS TASK_QUEUE\n");
        return 2;
    }
    struct weir_handler handler = {"greet", greet, NULL};
    struct weir_node_options steps = {.handlers = &handler, .handler_count = 1};
    struct weir_temporal service = {.address = argv[2], .task_queue = argv[3]};
    struct weir_node_options workflows = {.group = "temporal", .temporal = &service};
    struct weir *weir = NULL;
    struct weir_node *nodes[2] = {NULL, NULL};
    struct weir_error error;

    must(weir_migrate(argv[1], NULL, &error), "migrating", &error);
    must(weir_open(argv[1], NULL, &weir, &error), "opening", &error);
    must(weir_set_workspace(weir, "acme", "pro", 0, &error), "making the workspace", &error);
    must(weir_publish_workflow(weir, here, 0, "here", NULL, &error), "publishing", &error);
    must(weir_publish_workflow(weir, outside, 0, "outside", NULL, &error), "publishing", &error);
    must(weir_node_open(weir, &steps, &nodes[0], &error), "opening the node for steps", &error);
    must(weir_node_open(weir, &workflows, &nodes[1], &error), "opening the node on Temporal", &error);
    for (int i = 0; i < 2; i++) {
        must(weir_node_start(nodes[i], &error), "starting a node", &error);
    }

    run(weir, "here");
    run(weir, "outside");

    for (int i = 0; i < 2; i++) {
        must(weir_node_stop(nodes[i], -1, NULL, &error), "stopping a node", &error);
        weir_node_close(nodes[i]);
    }
    weir_close(weir);
    return 0;
}
