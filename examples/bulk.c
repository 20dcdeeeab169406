/* Bulk work: a workflow that starts one execution for each item, at most three at once, and adds up their results.
 *
 *     cc bulk.c $(pkg-config --cflags --libs weir) -o bulk
 *     ./bulk bulk.db bulk.yaml bulk-item.yaml
 *
 * The workspace has one slot, and the parent uses none while its children run. bulk.py is the same in Python.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

enum { SLOTS = 1 };

/* The items are known only now. */
static void split(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]");
}

static void work(struct weir_call *call, void *context)
{
    int number = 0;
    char output[32];
    const char *found = strstr(weir_call_input(call), "\"number\":");
    (void)context;
    if (found == NULL || sscanf(found, "\"number\": %d", &number) != 1) {
        weir_fail(call, "no_number", "the item has no number");
        return;
    }
    snprintf(output, sizeof output, "%d", number * number);
    weir_done(call, output);
}

/* Its input is the list of all outputs, in the order of the items. */
static void sum(struct weir_call *call, void *context)
{
    long total = 0;
    char output[64];
    const char *at = weir_call_input(call);
    (void)context;
    for (size_t length = 0; (length = strcspn(at, "0123456789")) < strlen(at);) {
        char *end;
        total += strtol(at + length, &end, 10);
        at = end;
    }
    snprintf(output, sizeof output, "{\"total\": %ld}", total);
    weir_done(call, output);
}

static void ends_badly(const char *doing, enum weir_status status, const struct weir_error *error)
{
    fprintf(stderr, "%s: %s (%s)\n", doing, error->message, weir_status_name(status));
    exit(1);
}

static void publish(struct weir *weir, const char *path)
{
    static char text[64 * 1024];
    struct weir_error error;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    enum weir_status status = weir_publish_workflow(weir, text, length, path, NULL, &error);
    if (status != WEIR_OK) {
        ends_badly("publishing", status, &error);
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "bulk.db";
    const struct weir_handler handlers[] = {
        {"bulk-split", split, NULL}, {"bulk-work", work, NULL}, {"bulk-sum", sum, NULL}};
    struct weir_node_options options = {.handlers = handlers, .handler_count = 3, .handler_threads = 1};
    const struct weir_request request = {.workspace = "acme", .workflow = "bulk"};
    struct weir_result result;
    struct weir_error error;
    struct weir *weir = NULL;
    struct weir_node *node = NULL;
    char *output = NULL;
    enum weir_end end = WEIR_END_FAILED;
    bool graceful = false;

    enum weir_status status = weir_migrate(path, NULL, &error);
    if (status == WEIR_OK) {
        status = weir_open(path, NULL, &weir, &error);
    }
    if (status == WEIR_OK) {
        status = weir_set_workspace(weir, "acme", "free", SLOTS, &error);
    }
    if (status == WEIR_OK) {
        status = weir_node_open(weir, &options, &node, &error);
    }
    if (status == WEIR_OK) {
        status = weir_node_start(node, &error);
    }
    if (status != WEIR_OK) {
        ends_badly("starting", status, &error);
    }
    publish(weir, argc > 2 ? argv[2] : "bulk.yaml");
    publish(weir, argc > 3 ? argv[3] : "bulk-item.yaml");
    status = weir_enqueue_many(weir, &request, 1, &result, &error);
    if (status == WEIR_OK) {
        status = weir_wait(weir, result.id, 60 * 1000000LL, &end, NULL, &error);
    }
    if (status == WEIR_OK) {
        status = weir_read_result(weir, result.id, &output, &error);
    }
    if (status != WEIR_OK) {
        ends_badly("waiting", status, &error);
    }
    printf("%s\n", output);
    weir_free(output);
    status = weir_node_stop(node, 5 * 1000000LL, &graceful, &error);
    weir_node_close(node);
    weir_close(weir);
    return status == WEIR_OK && end == WEIR_END_COMPLETED ? 0 : 1;
}
