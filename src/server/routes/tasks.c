/* Tasks: claim, heartbeat, complete, fail, and the end of a worker (docs/workers.md).
 *
 * A claim without a task leaves its request held (request.h) until the hub wakes it. Then the handler runs again from its
 * beginning, with the deadline of the first time. A report of one task is answered by the status of its verdict, one of
 * several tasks by 200 with a verdict for each. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "server/http_server.h"
#include "server/routes/routes.h"
#include "server/task_service.h"

/* A client that is gone is noticed when its claim is woken, so no wait may be long. */
enum { CLAIM_WAIT_US_MOST = 60000000, REPORTS_MAX = 1000, TASK_LOG_PARTS_MAX = 1000, PLACE_BYTES_MAX = 64 };

/* --- reading --- */

/* `at_fault` becomes the name of the key when it is refused; likewise below. */
static enum weir_status task_text_field(const json_t *object, const char *key, bool is_needed, const char **ret_text,
                                        const char **at_fault, struct weir_error *error)
{
    const json_t *value = json_object_get(object, key);
    *ret_text = NULL;
    if ((value == NULL || json_is_null(value)) && !is_needed) {
        return WEIR_OK;
    }
    if (!json_is_string(value)) {
        *at_fault = key;
        return error_set(error, WEIR_INVALID_ARGUMENT, "`%s` must be a text", key);
    }
    /* A cut name could be that of another worker or task. */
    if (json_string_has_nul(value)) {
        *at_fault = key;
        return error_set(error, WEIR_INVALID_ARGUMENT, "`%s` contains a NUL", key);
    }
    *ret_text = json_string_value(value);
    return WEIR_OK;
}

static enum weir_status task_worker_field(const json_t *body, const char **ret_worker, const char **at_fault,
                                          struct weir_error *error)
{
    enum weir_status status = task_text_field(body, "worker", true, ret_worker, at_fault, error);
    if (status == WEIR_OK && ((*ret_worker)[0] == '\0' || strlen(*ret_worker) > TASK_WORKER_NAME_MAX)) {
        *at_fault = "worker";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "`worker` is a name of 1 to %d bytes", TASK_WORKER_NAME_MAX);
    }
    return status;
}

/* From 0 to `most`; `otherwise` when it is not there. */
static enum weir_status task_number_field(const json_t *object, const char *key, int64_t most, int64_t otherwise,
                                          int64_t *ret_number, const char **at_fault, struct weir_error *error)
{
    const json_t *value = json_object_get(object, key);
    *ret_number = otherwise;
    if (value == NULL || json_is_null(value)) {
        return WEIR_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > most) {
        *at_fault = key;
        return error_set(error, WEIR_INVALID_ARGUMENT, "`%s` must be a whole number from 0 to %lld", key, (long long)most);
    }
    *ret_number = json_integer_value(value);
    return WEIR_OK;
}

/* A misspelt key would otherwise have no effect. */
static enum weir_status check_keys(const json_t *object, const char *const *keys, size_t count, const char **at_fault,
                                   struct weir_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(key, keys[i]) != 0) {
            i++;
        }
        if (i == count) {
            const char *nearest = text_nearest(key, keys, count);
            *at_fault = key;
            error_set(error, WEIR_INVALID_ARGUMENT, "the body has the unknown key \"%.64s\"", key);
            if (nearest != NULL) {
                error_hint(error, "did you mean \"%s\"?", nearest);
            }
            return WEIR_INVALID_ARGUMENT;
        }
    }
    return WEIR_OK;
}

/* `at_fault`: a key of the object to which `place` points, "" for that object, or NULL. */
static void refuse_task_request(struct http_request *request, struct http_answer *answer, const struct weir_error *error,
                                const char *place, const char *at_fault)
{
    char pointer[PLACE_BYTES_MAX + 72];
    if (at_fault != NULL) {
        (void)snprintf(pointer, sizeof pointer, "%s%s%.64s", place, at_fault[0] == '\0' ? "" : "/", at_fault);
    }
    respond_error(request, answer, error, at_fault != NULL ? pointer : NULL);
}

/* --- claim --- */

/* The first node of the process, or that of the group. */
static struct task_hub *find_hub(struct api *api, const char *group)
{
    for (size_t i = 0; i < api->task_service_count; i++) {
        struct task_service *service = &api->task_services[i];
        if (service->hub != NULL && (group == NULL || strcmp(service->group, group) == 0)) {
            return service->hub;
        }
    }
    return NULL;
}

/* Borrowed from the body. */
struct claim_body {
    const char *handlers[TASK_WORKER_HANDLERS_MAX];
    const char *group;
    struct task_claim claim;
    int64_t wait_us;
};

/* The names live as long as the body. The hub checks what a name may be. */
static enum weir_status read_handlers(const json_t *body, struct claim_body *read, const char **at_fault,
                                      struct weir_error *error)
{
    const json_t *handlers = json_object_get(body, "handlers");
    size_t i;
    const json_t *name;
    *at_fault = "handlers";
    if (!json_is_array(handlers) || json_array_size(handlers) == 0 ||
        json_array_size(handlers) > TASK_WORKER_HANDLERS_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "`handlers` must be a list of 1 to %d names",
                         TASK_WORKER_HANDLERS_MAX);
    }
    json_array_foreach(handlers, i, name)
    {
        if (!json_is_string(name)) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "`handlers` must have texts alone");
        }
        if (json_string_has_nul(name)) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "a name of `handlers` contains a NUL");
        }
        read->handlers[i] = json_string_value(name);
    }
    *at_fault = NULL;
    read->claim.handlers = read->handlers;
    read->claim.handler_count = json_array_size(handlers);
    return WEIR_OK;
}

/* An empty `max` is one task, an empty `wait_us` no wait. */
static enum weir_status read_claim(const json_t *body, struct claim_body *read, const char **at_fault,
                                   struct weir_error *error)
{
    static const char *const keys[] = {"worker", "handlers", "max", "wait_us", "executor_group"};
    int64_t max = 1;
    enum weir_status status = check_keys(body, keys, sizeof keys / sizeof keys[0], at_fault, error);
    if (status == WEIR_OK) {
        status = task_text_field(body, "worker", true, &read->claim.worker, at_fault, error);
    }
    if (status == WEIR_OK) {
        status = task_text_field(body, "executor_group", false, &read->group, at_fault, error);
    }
    if (status == WEIR_OK) {
        status = task_number_field(body, "max", TASK_CLAIM_MAX, 1, &max, at_fault, error);
    }
    if (status == WEIR_OK) {
        status = task_number_field(body, "wait_us", CLAIM_WAIT_US_MOST, 0, &read->wait_us, at_fault, error);
    }
    read->claim.max = (size_t)max;
    return status == WEIR_OK ? read_handlers(body, read, at_fault, error) : status;
}

/* Workers of one machine without tokens are those of the token 0. */
static int64_t token_of(const struct principal *principal)
{
    return principal != NULL ? principal->token_id : 0;
}

/* Called by the hub, under its lock. */
static void wake_request(struct task_waiter *waiter)
{
    struct http_request *request = waiter->owner;
    request->again(request);
}

/* A client that has closed its connection, or that sends no more, while its claim waited; or its worker has left. A task
 * that it got would be lost for a lease. */
static bool claimer_is_gone(const struct http_request *request)
{
    struct pollfd connection = {.fd = request->connection_fd, .events = POLLRDHUP};
    return request->is_again && (request->waiter.has_left || poll(&connection, 1, 0) > 0);
}

/* A request that was held keeps its time of arrival, so that its wait ends in time. */
static enum weir_status claim_tasks(struct api *api, struct http_request *request, struct http_answer *answer,
                                    struct claim_body *read, struct weir_error *error)
{
    struct task_hub *hub = find_hub(api, read->group);
    if (hub == NULL) {
        return error_set(error, WEIR_NOT_FOUND, "this process has no node of the group \"%.64s\" that runs handlers",
                         read->group != NULL ? read->group : "default");
    }
    if (claimer_is_gone(request)) {
        task_hub_pass_wake(hub);
        return error_set(error, WEIR_STOPPED, "the worker has left");
    }
    read->claim.arrived_us = request->arrived_us;
    read->claim.token_id = token_of(request->principal);
    read->claim.deadline_us = time_add(request->arrived_us, read->wait_us);
    request->waiter = (struct task_waiter){.wake = wake_request, .owner = request};
    enum weir_status status = task_hub_claim(hub, &read->claim, &request->waiter, &answer->body, error);
    if (status == WEIR_OK && answer->body.length > 0) {
        answer->status = 200;
        answer->type = "application/json";
    } else if (status == WEIR_OK) {
        request->is_held = true;
    }
    return status;
}

/* An answer that was begun is dropped on a failure: its tasks come back when their leases end. */
void answer_claim_tasks(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    struct weir_error error = {.status = WEIR_OK};
    struct claim_body read = {.group = NULL};
    const char *at_fault = NULL;
    json_t *body = NULL;
    enum weir_status status = request_object(request, &body, &error);
    if (status == WEIR_OK) {
        status = read_claim(body, &read, &at_fault, &error);
    }
    if (status == WEIR_OK) {
        status = claim_tasks(api, request, answer, &read, &error);
    }
    if (status != WEIR_OK) {
        text_clear(&answer->body);
        refuse_task_request(request, answer, &error, "", at_fault);
    }
    json_decref(body);
}

/* --- reports --- */

/* The common state of all reports of a request. */
struct report_reader {
    struct task_hub *hub;   /* of the last report that is not on record yet */
    const char *unrecorded; /* its task, in the body; NULL = none */
    struct api *api;
    int64_t token_id;
    const char *worker;
    enum task_report_kind kind;
    bool is_read;                                 /* all reports once, without a mistake */
    struct text output;                           /* of the present task */
    struct task_log_part log[TASK_LOG_PARTS_MAX]; /* likewise */
    char place[PLACE_BYTES_MAX]; /* a JSON pointer to the report or the part of a log that is read; "" = the body */
    const char *at_fault;        /* a key there */
};

/* A process may have several nodes, and a report does not name one. */
static enum task_verdict give_report(struct report_reader *reader, const struct task_report *report)
{
    enum task_verdict verdict = TASK_UNKNOWN;
    for (size_t i = 0; i < reader->api->task_service_count && verdict == TASK_UNKNOWN; i++) {
        struct task_hub *hub = reader->api->task_services[i].hub;
        verdict = hub != NULL ? task_hub_report(hub, report) : TASK_UNKNOWN;
        if (verdict == TASK_UNRECORDED) {
            reader->hub = hub;
            reader->unrecorded = report->task;
        }
    }
    return verdict;
}

static enum weir_status read_log_part(const json_t *item, struct task_log_part *part, struct report_reader *reader,
                                      struct weir_error *error)
{
    static const char *const keys[] = {"stream", "text"};
    static const enum weir_stream streams[] = {WEIR_STREAM_LOG, WEIR_STREAM_STDOUT, WEIR_STREAM_STDERR};
    static const char *const names[] = {"log", "stdout", "stderr"};
    const char *stream = NULL;
    enum weir_status status = check_keys(item, keys, 2, &reader->at_fault, error);
    if (status == WEIR_OK) {
        status = task_text_field(item, "stream", false, &stream, &reader->at_fault, error);
    }
    if (status == WEIR_OK) {
        status = task_text_field(item, "text", true, &part->text, &reader->at_fault, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    size_t i = 0;
    while (stream != NULL && i < sizeof names / sizeof names[0] && strcmp(stream, names[i]) != 0) {
        i++;
    }
    if (i == sizeof names / sizeof names[0]) {
        reader->at_fault = "stream";
        return error_set(error, WEIR_INVALID_ARGUMENT, "`stream` is log, stdout or stderr");
    }
    part->stream = streams[i];
    part->length = json_string_length(json_object_get(item, "text"));
    return WEIR_OK;
}

static enum weir_status task_log_fields(const json_t *item, struct task_report *report, struct report_reader *reader,
                                        struct weir_error *error)
{
    const json_t *log = json_object_get(item, "log");
    size_t i;
    enum weir_status status =
        task_number_field(item, "log_at", INT64_MAX / 2, 0, &report->log_at, &reader->at_fault, error);
    if (status == WEIR_OK && log != NULL && (!json_is_array(log) || json_array_size(log) > TASK_LOG_PARTS_MAX)) {
        reader->at_fault = "log";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "`log` must be a list of at most %d parts", TASK_LOG_PARTS_MAX);
    }
    size_t place_length = strlen(reader->place);
    for (i = 0; i < json_array_size(log) && status == WEIR_OK; i++) {
        (void)snprintf(reader->place + place_length, sizeof reader->place - place_length, "/log/%zu", i);
        status = read_log_part(json_array_get(log, i), &reader->log[i], reader, error);
    }
    if (status == WEIR_OK) {
        reader->place[place_length] = '\0';
    }
    report->log = reader->log;
    report->log_count = json_array_size(log);
    return status;
}

/* Without `retry` the policy of the step decides. */
static enum weir_status task_failure_fields(const json_t *item, struct task_report *report, struct report_reader *reader,
                                            struct weir_error *error)
{
    const json_t *retry = json_object_get(item, "retry");
    int64_t retry_after_us = -1;
    enum weir_status status = task_text_field(item, "error_code", false, &report->code, &reader->at_fault, error);
    if (status == WEIR_OK) {
        status = task_text_field(item, "error", false, &report->error, &reader->at_fault, error);
    }
    if (status == WEIR_OK) {
        status = task_number_field(item, "retry_after_us", INT64_C(365) * 86400 * MICROSECONDS_PER_SECOND, -1,
                                   &retry_after_us, &reader->at_fault, error);
    }
    if (status == WEIR_OK && retry != NULL && !json_is_boolean(retry)) {
        reader->at_fault = "retry";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "`retry` must be true or false");
    }
    report->is_final = json_is_false(retry);
    report->retry_after_us = retry_after_us;
    return status;
}

/* A heartbeat must not fail for its progress, so a number beyond 0 and 1 and a long text are the engine's to cut. */
static enum weir_status task_progress_fields(const json_t *item, struct task_report *report, struct report_reader *reader,
                                             struct weir_error *error)
{
    static const char *const keys[] = {"fraction", "text"};
    const json_t *progress = json_object_get(item, "progress");
    const json_t *fraction = json_object_get(progress, "fraction");
    if (progress == NULL || json_is_null(progress)) {
        return WEIR_OK;
    }
    if (!json_is_object(progress)) {
        reader->at_fault = "progress";
        return error_set(error, WEIR_INVALID_ARGUMENT, "`progress` must be an object with `fraction` and `text`");
    }
    size_t place_length = strlen(reader->place);
    (void)snprintf(reader->place + place_length, sizeof reader->place - place_length, "/progress");
    enum weir_status status = check_keys(progress, keys, 2, &reader->at_fault, error);
    if (status == WEIR_OK) {
        status = task_text_field(progress, "text", false, &report->progress_text, &reader->at_fault, error);
    }
    if (status == WEIR_OK && fraction != NULL && !json_is_null(fraction) && !json_is_number(fraction)) {
        reader->at_fault = "fraction";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "`fraction` must be a number from 0 to 1");
    }
    if (status == WEIR_OK) {
        reader->place[place_length] = '\0';
    }
    report->has_progress = true;
    report->fraction = json_is_number(fraction) ? json_number_value(fraction) : NAN;
    return status;
}

/* The text of the output lives in the reader, until the next report is read. The engine parses it again: it also hides the
 * secrets in it. */
static enum weir_status read_report(const json_t *item, struct task_report *report, struct report_reader *reader,
                                    struct weir_error *error)
{
    static const char *const keys[][7] = {
        [TASK_HEARTBEAT] = {"task", "log_at", "log", "progress"},
        [TASK_COMPLETE] = {"task", "log_at", "log", "output"},
        [TASK_FAIL] = {"task", "log_at", "log", "error_code", "error", "retry", "retry_after_us"}};
    static const size_t counts[] = {[TASK_HEARTBEAT] = 4, [TASK_COMPLETE] = 4, [TASK_FAIL] = 7};
    *report = (struct task_report){
        .kind = reader->kind, .token_id = reader->token_id, .worker = reader->worker, .retry_after_us = -1};
    reader->at_fault = "";
    if (!json_is_object(item)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "each of `tasks` must be an object");
    }
    enum weir_status status = check_keys(item, keys[reader->kind], counts[reader->kind], &reader->at_fault, error);
    if (status == WEIR_OK) {
        status = task_text_field(item, "task", true, &report->task, &reader->at_fault, error);
    }
    if (status == WEIR_OK) {
        status = task_log_fields(item, report, reader, error);
    }
    if (status == WEIR_OK && reader->kind == TASK_HEARTBEAT) {
        status = task_progress_fields(item, report, reader, error);
    }
    if (status == WEIR_OK && reader->kind == TASK_FAIL) {
        status = task_failure_fields(item, report, reader, error);
    }
    const json_t *output = json_object_get(item, "output");
    if (status == WEIR_OK && reader->kind == TASK_COMPLETE && output != NULL) {
        text_clear(&reader->output);
        status = json_write(output, &reader->output, error);
        report->output = reader->output.data;
    }
    return status;
}

/* The set without its reports: these are read one by one. */
static enum weir_status read_report_set(const json_t *body, struct report_reader *reader, const json_t **ret_tasks,
                                        struct weir_error *error)
{
    static const char *const keys[] = {"worker", "tasks"};
    enum weir_status status = check_keys(body, keys, 2, &reader->at_fault, error);
    if (status == WEIR_OK) {
        status = task_worker_field(body, &reader->worker, &reader->at_fault, error);
    }
    *ret_tasks = json_object_get(body, "tasks");
    size_t count = json_array_size(*ret_tasks);
    if (status == WEIR_OK && (count == 0 || count > REPORTS_MAX)) {
        reader->at_fault = "tasks";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "`tasks` must be a list of 1 to %d reports", REPORTS_MAX);
    }
    return status;
}

static enum weir_status add_verdict(struct text *results, const char *task, enum task_verdict verdict,
                                    struct weir_error *error)
{
    enum weir_status status = text_add_string(results, results->length == 0 ? "{\"tasks\":[{\"task\":" : ",{\"task\":");
    if (status == WEIR_OK) {
        status = json_write_string(task, results, error);
    }
    if (status == WEIR_OK) {
        status = text_format(results, ",\"verdict\":\"%s\"}", task_verdict_name(verdict));
    }
    return status == WEIR_OK ? status : error_out_of_memory(error);
}

/* Reads all reports before the first one counts: a refused set has no effect. One that has been held was read then. Without
 * a record of all there is no answer, so the verdicts behind an unrecorded one are not written. */
static enum weir_status report_all(const json_t *tasks, struct report_reader *reader, struct text *results,
                                   enum task_verdict *ret_last, struct weir_error *error)
{
    struct task_report report;
    size_t i;
    const json_t *item;
    for (i = 0; i < json_array_size(tasks) && !reader->is_read; i++) {
        (void)snprintf(reader->place, sizeof reader->place, "/tasks/%zu", i);
        enum weir_status status = read_report(json_array_get(tasks, i), &report, reader, error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    reader->is_read = true;
    reader->place[0] = '\0';
    reader->at_fault = NULL;
    reader->unrecorded = NULL;
    json_array_foreach(tasks, i, item)
    {
        enum weir_status status = read_report(item, &report, reader, error);
        if (status != WEIR_OK) {
            return status; /* no memory: the reports before it count, and the client repeats all of them */
        }
        *ret_last = give_report(reader, &report);
        status = reader->unrecorded == NULL ? add_verdict(results, report.task, *ret_last, error) : WEIR_OK;
        if (status != WEIR_OK) {
            return status; /* likewise */
        }
    }
    return WEIR_OK;
}

/* A client that reports one task at a time needs no body: the status is the verdict. */
static void answer_verdicts(struct http_request *request, struct http_answer *answer, bool is_alone, enum task_verdict last)
{
    if (is_alone && last == TASK_LOST) {
        text_clear(&answer->body);
        respond_problem(request, answer, 409, task_verdict_name(last),
                        "the worker does not have this task any more: its lease was over, or another report has ended it",
                        "drop it: its step is continued elsewhere", "/tasks/0/task");
    } else if (is_alone && last == TASK_UNKNOWN) {
        text_clear(&answer->body);
        respond_problem(request, answer, 404, task_verdict_name(last), "this node does not have the task",
                        "report it to the other nodes until its lease is over", "/tasks/0/task");
    } else {
        answer->status = 200;
        answer->type = "application/json";
    }
}

/* A result that is not on record yet holds the request, which reports all again afterwards: the same report counts once.
 * Waits for the last one, since the store records in the order of the reports. */
static enum weir_status report_until_recorded(struct http_request *request, const json_t *tasks,
                                              struct report_reader *reader, struct text *results,
                                              enum task_verdict *ret_last, struct weir_error *error)
{
    enum task_record record = TASK_RECORD_SETTLED;
    while (record == TASK_RECORD_SETTLED) {
        text_clear(results);
        enum weir_status status = report_all(tasks, reader, results, ret_last, error);
        if (status != WEIR_OK || reader->unrecorded == NULL) {
            return status;
        }
        request->waiter = (struct task_waiter){.wake = wake_request, .owner = request};
        record = task_hub_await_record(reader->hub, reader->unrecorded, request->arrived_us, &request->waiter);
    }
    request->is_held = record == TASK_RECORD_AWAITED;
    if (!request->is_held) {
        (void)error_set(error, WEIR_STORE_UNREACHABLE, "a result is not on record yet, because the store does not answer");
        error_hint(error, "report it again, until the lease is over: it counts once");
    }
    return request->is_held ? WEIR_OK : error->status;
}

/* The status 400 stands for the set as a whole. The whole set is read first, so that a mistake in one report is answered
 * before another one counts. */
static void answer_reports(struct api *api, struct http_request *request, struct http_answer *answer,
                           enum task_report_kind kind)
{
    struct weir_error error = {.status = WEIR_OK};
    /* A larger output is refused by the engine, so that the step fails with the reason. */
    struct report_reader reader = {
        .api = api, .token_id = token_of(request->principal), .kind = kind, .output = {.max = HTTP_BODY_BYTES_MAX * 2}};
    reader.is_read = request->is_again;
    enum task_verdict last = TASK_UNKNOWN;
    json_t *body = NULL;
    const json_t *tasks = NULL;
    enum weir_status status = request_object(request, &body, &error);
    if (status == WEIR_OK) {
        status = read_report_set(body, &reader, &tasks, &error);
    }
    if (status == WEIR_OK) {
        status = report_until_recorded(request, tasks, &reader, &answer->body, &last, &error);
    }
    if (status == WEIR_OK && !request->is_held && text_add_string(&answer->body, "]}\n") != WEIR_OK) {
        status = error_out_of_memory(&error);
    }
    if (status == WEIR_OK && !request->is_held) {
        answer_verdicts(request, answer, json_array_size(tasks) == 1, last);
    } else {
        text_clear(&answer->body);
    }
    if (status != WEIR_OK) {
        refuse_task_request(request, answer, &error, reader.place, reader.at_fault);
    }
    text_close(&reader.output);
    json_decref(body);
}

/* The three kinds of reports differ in their fields alone. */
void answer_heartbeat_tasks(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    answer_reports(api, request, answer, TASK_HEARTBEAT);
}

void answer_complete_tasks(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    answer_reports(api, request, answer, TASK_COMPLETE);
}

void answer_fail_tasks(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    answer_reports(api, request, answer, TASK_FAIL);
}

/* --- the end of a worker --- */

/* Borrowed from the body, but for `keeps` itself. */
static enum weir_status read_leave(const json_t *body, struct task_leave *leave, const char **keeps, const char **at_fault,
                                   struct weir_error *error)
{
    static const char *const keys[] = {"worker", "keeps"};
    size_t i;
    const json_t *id;
    enum weir_status status = check_keys(body, keys, 2, at_fault, error);
    if (status == WEIR_OK) {
        status = task_worker_field(body, &leave->worker, at_fault, error);
    }
    const json_t *list = json_object_get(body, "keeps");
    if (status != WEIR_OK || list == NULL || json_is_null(list)) {
        return status;
    }
    *at_fault = "keeps";
    if (!json_is_array(list) || json_array_size(list) > REPORTS_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "`keeps` must be a list of at most %d tasks", REPORTS_MAX);
    }
    json_array_foreach(list, i, id)
    {
        if (!json_is_string(id) || json_string_has_nul(id)) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "`keeps` must have texts alone, without a NUL");
        }
        keeps[i] = json_string_value(id);
    }
    *at_fault = NULL;
    leave->keeps = keeps;
    leave->keep_count = json_array_size(list);
    return WEIR_OK;
}

/* A worker that no node of the process knows has left already. */
void answer_leave_tasks(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    struct weir_error error = {.status = WEIR_OK};
    struct task_leave leave = {.token_id = token_of(request->principal)};
    const char *keeps[REPORTS_MAX];
    const char *at_fault = NULL;
    json_t *body = NULL;
    size_t given_back = 0;
    enum weir_status status = request_object(request, &body, &error);
    if (status == WEIR_OK) {
        status = read_leave(body, &leave, keeps, &at_fault, &error);
    }
    for (size_t i = 0; i < api->task_service_count && status == WEIR_OK; i++) {
        struct task_hub *hub = api->task_services[i].hub;
        given_back += hub != NULL ? task_hub_leave(hub, &leave) : 0;
    }
    if (status == WEIR_OK && text_format(&answer->body, "{\"given_back\":%zu}\n", given_back) != WEIR_OK) {
        status = error_out_of_memory(&error);
    }
    if (status == WEIR_OK) {
        answer->status = 200;
        answer->type = "application/json";
    } else {
        refuse_task_request(request, answer, &error, "", at_fault);
    }
    json_decref(body);
}
