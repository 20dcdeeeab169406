/* A worker: steps written in C, run by a node with threads of its own, in the program's own process.
 *
 *     cc handlers.c $(pkg-config --cflags --libs weir) -o handlers
 *     ./handlers invoices.db invoice.yaml
 *
 * Enqueues ten invoices for one customer on plan pro, waits for them, and shows one of the results.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

enum { INVOICES = 10, SLOTS_OF_PRO = 5 };

/* Handlers run on several threads at once. */
struct shop {
    atomic_int prices_asked;
    atomic_int at_work;
    atomic_int most_at_work;
};

static void note_most(struct shop *shop)
{
    int now = atomic_fetch_add(&shop->at_work, 1) + 1;
    int most = atomic_load(&shop->most_at_work);
    while (now > most && !atomic_compare_exchange_weak(&shop->most_at_work, &most, now)) {
    }
}

/* The first time that anybody asks, the price list "is not reachable": the step is tried again. */
static void price(struct weir_call *call, void *context)
{
    struct shop *shop = context;
    note_most(shop);
    if (atomic_fetch_add(&shop->prices_asked, 1) == 0) {
        weir_retry(call, "price_list_unreachable", "no answer from the price list");
    } else {
        weir_done(call, "{\"total\": 120}");
    }
    atomic_fetch_sub(&shop->at_work, 1);
}

/* Its input is the value of `input` in the definition, as JSON text. */
static void send(struct weir_call *call, void *context)
{
    char output[256];
    struct shop *shop = context;
    note_most(shop);
    snprintf(output, sizeof output, "{\"sent\": %s, \"attempt\": %d}", weir_call_input(call), weir_call_attempt(call));
    weir_done(call, output);
    atomic_fetch_sub(&shop->at_work, 1);
}

static void ends_badly(const char *doing, enum weir_status status, const struct weir_error *error)
{
    fprintf(stderr, "%s: %s (%s)\n", doing, error->message, weir_status_name(status));
    exit(1);
}

/* A program passes the events to its own log; here to stderr, and only the important ones. */
static void on_event(void *context, const struct weir_event *event)
{
    (void)context;
    if (event->level >= WEIR_EVENT_WARN) {
        fprintf(stderr, "%s: %s %s %s\n", event->name, event->message, event->code ? event->code : "",
                event->error ? event->error : "");
    }
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

static void enqueue_all(struct weir *weir, struct weir_result *results)
{
    static const char params[] = "{\"customer\": \"Ada\"}";
    struct weir_request requests[INVOICES];
    struct weir_error error;
    for (int i = 0; i < INVOICES; i++) {
        requests[i] = (struct weir_request){.workspace = "acme", .workflow = "invoice", .params = params};
    }
    enum weir_status status = weir_enqueue_many(weir, requests, INVOICES, results, &error);
    if (status != WEIR_OK) {
        ends_badly("enqueueing", status, &error);
    }
}

static int await_all(struct weir *weir, const struct weir_result *results)
{
    int completed = 0;
    struct weir_error error;
    for (int i = 0; i < INVOICES; i++) {
        enum weir_end end = WEIR_END_FAILED;
        enum weir_status status = results[i].status;
        if (status == WEIR_OK) {
            status = weir_wait(weir, results[i].id, 30 * 1000000LL, &end, NULL, &error);
        }
        if (status != WEIR_OK) {
            ends_badly("waiting", status, &error);
        }
        completed += end == WEIR_END_COMPLETED;
    }
    return completed;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "invoices.db";
    struct shop shop = {0};
    const struct weir_handler handlers[] = {{"price", price, &shop}, {"send", send, &shop}};
    struct weir_node_options options = {.handlers = handlers, .handler_count = 2, .handler_threads = 8};
    struct weir_options store_options = {.on_event = on_event};
    struct weir_result results[INVOICES];
    struct weir_error error;
    struct weir *weir = NULL;
    struct weir_node *node = NULL;
    bool graceful = false;

    enum weir_status status = weir_migrate(path, NULL, &error);
    if (status == WEIR_OK) {
        status = weir_open(path, &store_options, &weir, &error);
    }
    if (status == WEIR_OK) {
        status = weir_set_workspace(weir, "acme", "pro", 0, &error);
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

    publish(weir, argc > 2 ? argv[2] : "invoice.yaml");
    enqueue_all(weir, results);
    int completed = await_all(weir, results);

    status = weir_node_stop(node, 5 * 1000000LL, &graceful, &error);
    if (status != WEIR_OK) {
        ends_badly("stopping", status, &error);
    }
    printf("%d of %d completed, stopped %s\n", completed, INVOICES, graceful ? "gracefully" : "by force");
    printf("never more than %d at work: %s\n", SLOTS_OF_PRO,
           atomic_load(&shop.most_at_work) <= SLOTS_OF_PRO ? "yes" : "no");
    weir_node_close(node);
    weir_close(weir);
    return completed == INVOICES ? 0 : 1;
}
