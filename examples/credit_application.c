/* A workflow with states: the handlers of a credit application, and the person who accepts it.
 *
 *     cc credit_application.c $(pkg-config --cflags --libs weir) -o credit_application
 *     ./credit_application credits.db credit-application.yaml
 *
 * The application waits for a person in the state `preview`, without a slot. This program plays the person: it accepts
 * with a limit. Without the program `weir update ID --state accept --var limit=5000` does the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/weir.h>

enum { AMOUNT_MOST = 10000, POLLS_MOST = 3000 };

/* The variables and the next state are saved together, when this has returned. */
static void create(struct weir_call *call, void *context)
{
    int amount = 0;
    char text[32];
    struct weir_error error;
    const char *found = strstr(weir_call_input(call), "\"amount\":");
    (void)context;
    if (found == NULL || sscanf(found, "\"amount\": %d", &amount) != 1) {
        weir_fail(call, "no_amount", "the application has no amount");
        return;
    }
    snprintf(text, sizeof text, "%d", amount);
    if (weir_call_set_variable(call, "amount", text, &error) != WEIR_OK) {
        weir_fail(call, "variable", error.message);
        return;
    }
    weir_next(call, amount > AMOUNT_MOST ? "reject" : "preview");
}

static void accept(struct weir_call *call, void *context)
{
    const char *limit = weir_call_variable(call, "limit");
    (void)context;
    weir_next(call, limit == NULL ? "reject" : "grant");
}

/* The bank does not answer the first time. The number of the action is an idempotency key for it. */
static void grant(struct weir_call *call, void *context)
{
    int *asked = context;
    if ((*asked)++ == 0) {
        weir_retry(call, "bank_busy", "no answer from the bank");
    } else {
        weir_next(call, "finish");
    }
}

static void finish(struct weir_call *call, void *context)
{
    char output[128];
    (void)context;
    snprintf(output, sizeof output, "{\"granted\": %s}", weir_call_variable(call, "limit"));
    weir_done(call, output);
}

static void reject(struct weir_call *call, void *context)
{
    (void)context;
    weir_next(call, "done");
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

/* Until it waits for a person. A program with a user interface lists such executions instead. */
static void await_review(struct weir *weir, const char *id)
{
    struct weir_error error;
    for (int i = 0; i < POLLS_MOST; i++) {
        char *shown = NULL;
        enum weir_status status = weir_show(weir, id, &shown, &error);
        if (status != WEIR_OK) {
            ends_badly("reading", status, &error);
        }
        int waits = strstr(shown, "\"manual\"") != NULL;
        weir_free(shown);
        if (waits) {
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000000L}, NULL);
    }
    fprintf(stderr, "the application does not wait for a person\n");
    exit(1);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "credits.db";
    int asked = 0;
    const struct weir_handler handlers[] = {{"credit-create", create, NULL},
                                            {"credit-accept", accept, NULL},
                                            {"credit-grant", grant, &asked},
                                            {"credit-finish", finish, NULL},
                                            {"credit-reject", reject, NULL}};
    struct weir_node_options options = {.handlers = handlers, .handler_count = 5, .handler_threads = 1};
    const struct weir_request request = {
        .workspace = "acme", .workflow = "credit-application", .params = "{\"amount\": 4000}"};
    const struct weir_update update = {
        .state = "accept", .variables = "{\"limit\": 5000}", .reason = "a customer for ten years"};
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
    publish(weir, argc > 2 ? argv[2] : "credit-application.yaml");
    status = weir_enqueue_many(weir, &request, 1, &result, &error);
    if (status != WEIR_OK) {
        ends_badly("enqueueing", status, &error);
    }
    await_review(weir, result.id);
    status = weir_update_execution(weir, result.id, &update, NULL, &error);
    if (status == WEIR_OK) {
        status = weir_wait(weir, result.id, 30 * 1000000LL, &end, NULL, &error);
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
