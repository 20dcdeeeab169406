/* A program with handlers on a server: its node is a worker over HTTP. The test beside it answers the calls.
 *
 * usage: worker_program STORE [MAX_RUNNING]
 *
 * The handler `job` prints "begin EXECUTION ATTEMPT FENCE TRACEPARENT TIME_LEFT_US", and leaves its answer to the lines of
 * stdin:
 *
 *   done EXECUTION OUTPUT       log EXECUTION TEXT       interrupted EXECUTION       stop SECONDS
 *   pause -       resume -      unregister job           register job
 *
 * With "refusals" in place of MAX_RUNNING it prints what a node on a server refuses, and ends.
 *
 * Further lines of it are "cancel EXECUTION moves|wanted" and "recorded EXECUTION yes|no". `scripted` does the acts of
 * tests/workers/cases.json. An error that ends the program is "error CODE MESSAGE (HINT)".
 */
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

enum { CALLS_MAX = 64, CHECK_MS = 50, LINE_MAX = 70000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_call *calls[CALLS_MAX];

/* One line, written at once. */
static void print_line(const char *text, const char *execution, const char *rest)
{
    (void)printf("%s %s %s\n", text, execution, rest);
    (void)fflush(stdout);
}

static int stop_with(enum weir_status status, const struct weir_error *error)
{
    (void)printf("error %s %s (%s)\n", weir_status_name(status), error->message, error->hint);
    (void)fflush(stdout);
    return 1;
}

/* --- job --- */

static void note_cancel(struct weir_call *call, void *context)
{
    (void)context;
    print_line("cancel", weir_call_execution_id(call), weir_call_moves(call) ? "moves" : "wanted");
}

static void note_recorded(void *context, bool is_recorded)
{
    print_line("recorded", context, is_recorded ? "yes" : "no");
    free(context);
}

static void begin_job(struct weir_call *call, void *context)
{
    (void)context;
    char rest[200];
    const char *traceparent = weir_call_traceparent(call);
    weir_call_defer(call);
    weir_call_on_recorded(call, note_recorded, strdup(weir_call_execution_id(call)));
    (void)pthread_mutex_lock(&lock);
    size_t place = 0;
    while (place < CALLS_MAX && calls[place] != NULL) {
        place++;
    }
    if (place == CALLS_MAX) {
        abort();
    }
    calls[place] = call;
    (void)snprintf(rest, sizeof rest, "%d %lld %s %lld", weir_call_attempt(call), (long long)weir_call_fence(call),
                   traceparent == NULL ? "-" : traceparent, (long long)weir_call_time_left_us(call));
    print_line("begin", weir_call_execution_id(call), rest);
    weir_call_on_cancel(call, note_cancel, NULL);
    (void)pthread_mutex_unlock(&lock);
}

/* The oldest call of the execution; `takes`: it is answered next. */
static struct weir_call *find_call(const char *execution, bool takes)
{
    struct weir_call *found = NULL;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CALLS_MAX && found == NULL; i++) {
        if (calls[i] != NULL && strcmp(weir_call_execution_id(calls[i]), execution) == 0) {
            found = calls[i];
            calls[i] = takes ? NULL : found;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* --- scripted --- */

static void end_scripted(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, NULL);
}

static void answer_failure(struct weir_call *call, const char *act, const json_t *value)
{
    const char *code = json_string_value(json_object_get(value, "code"));
    const char *text = json_string_value(json_object_get(value, "error"));
    const json_t *after = json_object_get(value, "after_us");
    if (strcmp(act, "fail") == 0) {
        weir_fail(call, code, text);
    } else if (after != NULL) {
        weir_retry_after(call, json_integer_value(after), code, text);
    } else {
        weir_retry(call, code, text);
    }
}

static void await_cancel(struct weir_call *call);

static void report_progress(struct weir_call *call, const json_t *report)
{
    const json_t *fraction = json_object_get(report, "fraction");
    const char *text = json_string_value(json_object_get(report, "text"));
    size_t length = text == NULL ? 0 : strlen(text);
    size_t count = length > 0 ? (size_t)json_integer_value(json_object_get(report, "repeat")) : 0;
    char *repeated = count > 0 ? malloc(count * length + 1) : NULL;
    for (size_t i = 0; repeated != NULL && i < count; i++) {
        memcpy(repeated + i * length, text, length + 1);
    }
    weir_call_progress(call, json_is_number(fraction) ? json_number_value(fraction) : (double)NAN,
                       repeated != NULL ? repeated : text);
    free(repeated);
}

static void run_scripted(struct weir_call *call, void *context)
{
    (void)context;
    json_t *input = json_loads(weir_call_input(call), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const json_t *acts = json_object_get(input, "acts");
    size_t at = (size_t)weir_call_attempt(call) - 1;
    at = at < json_array_size(acts) ? at : json_array_size(acts) - 1;
    const char *act;
    json_t *value;
    print_line("begin", weir_call_execution_id(call), "");
    json_object_foreach(json_array_get(acts, at), act, value)
    {
        if (strcmp(act, "complete") == 0) {
            char *output = json_dumps(value, JSON_ENCODE_ANY);
            weir_done(call, output);
            free(output);
        } else if (strcmp(act, "raise") == 0) {
            weir_retry(call, NULL, json_string_value(value));
        } else if (strcmp(act, "report_progress") == 0) {
            report_progress(call, value);
            await_cancel(call);
        } else if (strcmp(act, "await_cancel") == 0 || strcmp(act, "await_stop") == 0) {
            await_cancel(call);
        } else {
            answer_failure(call, act, value);
        }
    }
    json_decref(input);
}

/* An answer waits for the function, so it comes from another thread. */
static void *end_cancelled(void *call)
{
    if (weir_call_moves(call)) {
        weir_retry(call, NULL, "stopped");
    } else {
        end_scripted(call, NULL);
    }
    return NULL;
}

static void on_cancel(struct weir_call *call, void *context)
{
    (void)context;
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_cancelled, call) != 0) {
        abort();
    }
    (void)pthread_detach(thread);
}

static void await_cancel(struct weir_call *call)
{
    weir_call_defer(call);
    weir_call_on_cancel(call, on_cancel, NULL);
}

/* --- the program --- */

static const struct weir_handler handlers[] = {{"job", begin_job, NULL}, {"scripted", run_scripted, NULL}};

/* False: it is no order to the node. */
static bool order_node(struct weir_node *node, const char *word, enum weir_status *ret_status, struct weir_error *error)
{
    *ret_status = WEIR_OK;
    if (strcmp(word, "pause") == 0) {
        weir_node_pause(node);
    } else if (strcmp(word, "resume") == 0) {
        weir_node_resume(node);
    } else if (strcmp(word, "unregister") == 0) {
        *ret_status = weir_node_unregister_handler(node, "job", error);
    } else if (strcmp(word, "register") == 0) {
        *ret_status = weir_node_register_handler(node, &handlers[0], error);
    } else {
        return false;
    }
    return true;
}

/* Returns the exit code of the program, or -1. */
static int obey(struct weir_node *node, char *line)
{
    struct weir_error error = {.status = WEIR_OK};
    char *rest = NULL;
    char *word = strtok_r(line, " \n", &rest);
    char *subject = strtok_r(NULL, " \n", &rest);
    enum weir_status ordered;
    if (order_node(node, word, &ordered, &error)) {
        print_line("ordered", word, weir_status_name(ordered));
        return -1;
    }
    if (strcmp(word, "stop") == 0) {
        bool is_graceful = false;
        enum weir_status status = weir_node_stop(node, strtoll(subject, NULL, 10) * 1000000, &is_graceful, &error);
        if (status != WEIR_OK) {
            return stop_with(status, &error);
        }
        print_line("stopped", is_graceful ? "graceful" : "interrupted", "");
        return 0;
    }
    struct weir_call *call = find_call(subject, strcmp(word, "log") != 0);
    if (call == NULL) {
        print_line("error", subject, "has no call");
        return 1;
    }
    if (strcmp(word, "log") == 0) {
        weir_call_output(call, WEIR_STREAM_STDERR, rest, strlen(rest));
    } else if (strcmp(word, "interrupted") == 0) {
        weir_interrupted(call, "the test wants it");
    } else {
        weir_done(call, rest);
    }
    return -1;
}

static int run_program(struct weir_node *node)
{
    static char lines[LINE_MAX];
    size_t length = 0;
    for (;;) {
        struct weir_error error = {.status = WEIR_OK};
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        enum weir_status status = weir_node_health(node, &error);
        if (status != WEIR_OK) {
            return stop_with(status, &error);
        }
        if (poll(&input, 1, CHECK_MS) <= 0) {
            continue;
        }
        ssize_t count = read(STDIN_FILENO, lines + length, sizeof lines - length - 1);
        if (count <= 0) {
            _exit(0);
        }
        length += (size_t)count;
        lines[length] = '\0';
        for (char *end = strchr(lines, '\n'); end != NULL; end = strchr(lines, '\n')) {
            *end = '\0';
            int code = obey(node, lines);
            if (code >= 0) {
                return code;
            }
            length -= (size_t)(end + 1 - lines);
            memmove(lines, end + 1, length + 1);
        }
    }
}

static void print_refusal(enum weir_status status, const struct weir_error *error)
{
    (void)printf("refused %s %s (%s)\n", weir_status_name(status), error->message, error->hint);
    (void)fflush(stdout);
}

static void try_options(struct weir *weir, const struct weir_node_options *options)
{
    struct weir_error error = {.status = WEIR_OK};
    struct weir_node *node = NULL;
    print_refusal(weir_node_open(weir, options, &node, &error), &error);
    weir_node_close(node);
}

static int print_refusals(struct weir *weir)
{
    enum { MANY = 65 };
    static char names[MANY][16];
    static struct weir_handler many[MANY];
    static const struct weir_temporal temporal = {.address = "127.0.0.1:1"};
    static const char *const all[] = {"*", NULL};
    static char long_name[200];
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "handler-%zu", i);
        many[i] = (struct weir_handler){names[i], begin_job, NULL};
    }
    memset(long_name, 'x', sizeof long_name - 1);
    try_options(weir, &(struct weir_node_options){.temporal = &temporal});
    try_options(weir, &(struct weir_node_options){.allow_exec = true});
    try_options(weir, &(struct weir_node_options){.http_allow_list = all});
    try_options(weir, &(struct weir_node_options){.handlers = many, .handler_count = MANY});
    try_options(weir, &(struct weir_node_options){.name = long_name});
    try_options(weir, &(struct weir_node_options){.name = ""});
    try_options(weir, &(struct weir_node_options){.group = long_name});
    try_options(weir, &(struct weir_node_options){.name = "\xff"});
    struct weir_error error = {.status = WEIR_OK};
    struct weir_node *node = NULL;
    enum weir_status status = weir_node_open(weir, NULL, &node, &error);
    if (status != WEIR_OK) {
        return stop_with(status, &error);
    }
    status = weir_node_step(node, NULL, &error);
    print_refusal(status, &error);
    weir_node_wake(node);
    bool is_graceful = false;
    status = weir_node_stop(node, 0, &is_graceful, &error); /* it was never started */
    print_line("stopped", weir_status_name(status), is_graceful && weir_node_fd(node) == -1 ? "graceful" : "");
    weir_node_close(node);
    weir_close(weir);
    return 0;
}

int main(int count, char **words)
{
    struct weir_node_options options = {
        .handlers = handlers, .handler_count = 2, .max_running = count > 2 ? strtoul(words[2], NULL, 10) : 0};
    struct weir_error error = {.status = WEIR_OK};
    struct weir *weir = NULL;
    struct weir_node *node = NULL;
    if (count < 2) {
        return 2;
    }
    enum weir_status status = weir_open(words[1], NULL, &weir, &error);
    if (status == WEIR_OK && count > 2 && strcmp(words[2], "refusals") == 0) {
        return print_refusals(weir);
    }
    if (status == WEIR_OK) {
        status = weir_node_open(weir, &options, &node, &error);
    }
    if (status == WEIR_OK) {
        status = weir_node_start(node, &error);
    }
    int code = status == WEIR_OK ? 0 : stop_with(status, &error);
    if (code == 0) {
        print_line("started", "", "");
        code = run_program(node);
    }
    if (code != 0) {
        _exit(code); /* calls may be open, for which a close would wait */
    }
    weir_node_close(node);
    weir_close(weir);
    return code;
}
