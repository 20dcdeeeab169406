/* A node without threads, inside a program's own poll() loop.
 *
 *     cc own_loop.c $(pkg-config --cflags --libs weir) -o own_loop
 *     printf 'one\ntwo\n' | ./own_loop words.db
 *
 * Each line of stdin becomes an execution. Its only step is a C function, which is called from this very loop. The program
 * ends when stdin has ended and all is done.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

struct program {
    struct weir *weir;
    struct weir_node *node;
    char line[256];
    size_t length; /* of what was read of a line */
    int open;      /* enqueued and not done yet */
    int done;
};

static void count_letters(struct weir_call *call, void *context)
{
    struct program *program = context; /* no lock: there is only one thread */
    char output[32];
    snprintf(output, sizeof output, "%zu", strlen(weir_call_input(call)));
    weir_done(call, output);
    program->done++;
}

static void must(enum weir_status status, const char *doing, const struct weir_error *error)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: %s (%s)\n", doing, error->message, weir_status_name(status));
        exit(1);
    }
}

static void enqueue(struct program *program, const char *word)
{
    char params[320];
    char id[WEIR_ID_SIZE];
    struct weir_error error;
    struct weir_request request = {.workspace = "words", .workflow = "count", .params = params};
    snprintf(params, sizeof params, "{\"word\": \"%s\"}", word); /* a real program would escape it */
    enum weir_status status = weir_enqueue(program->weir, &request, id, &error);
    if (status == WEIR_OK) {
        program->open++;
    } else {
        fprintf(stderr, "\"%s\" is refused: %s\n", word, error.message);
    }
}

/* False at the end of the input. */
static bool read_stdin(struct program *program)
{
    char bytes[256];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] == '\n') {
            program->line[program->length] = '\0';
            enqueue(program, program->line);
            program->length = 0;
        } else if (program->length + 1 < sizeof program->line) {
            program->line[program->length++] = bytes[i];
        }
    }
    return got > 0;
}

static void loop(struct program *program)
{
    struct weir_error error;
    bool has_input = true;
    while (has_input || program->done < program->open) {
        int64_t wait_us = 0;
        must(weir_node_step(program->node, &wait_us, &error), "stepping", &error);
        if (!has_input && program->done == program->open) {
            break;
        }
        struct pollfd ready[] = {{.fd = weir_node_fd(program->node), .events = POLLIN},
                                 {.fd = has_input ? STDIN_FILENO : -1, .events = POLLIN}};
        int wait_ms = wait_us < 0 ? -1 : (int)((wait_us + 999) / 1000);
        if (poll(ready, 2, wait_ms) > 0 && ready[1].revents != 0) {
            has_input = read_stdin(program);
        }
    }
}

int main(int argc, char **argv)
{
    static const char workflow[] = "{\"name\": \"count\", \"steps\": {\"count\": {\"handler\": \"count_letters\","
                                   " \"input\": \"${.input.word}\"}}}";
    const char *path = argc > 1 ? argv[1] : "words.db";
    struct program program = {.open = 0};
    struct weir_handler handler = {"count_letters", count_letters, &program};
    struct weir_node_options options = {.handlers = &handler, .handler_count = 1};
    struct weir_error error;
    bool graceful = false;

    must(weir_migrate(path, NULL, &error), "migrating", &error);
    must(weir_open(path, NULL, &program.weir, &error), "opening", &error);
    must(weir_set_workspace(program.weir, "words", "enterprise", 0, &error), "making the workspace", &error);
    must(weir_publish_workflow(program.weir, workflow, 0, "count", NULL, &error), "publishing", &error);
    must(weir_node_open(program.weir, &options, &program.node, &error), "opening the node", &error);

    loop(&program);

    must(weir_node_stop(program.node, -1, &graceful, &error), "stopping", &error);
    printf("%d words counted, stopped %s\n", program.done, graceful ? "gracefully" : "by force");
    weir_node_close(program.node);
    weir_close(program.weir);
    return 0;
}
