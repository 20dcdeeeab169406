/* The requests of a worker: claims, heartbeats and reports, each in sets, many at once by libcurl's multi interface.
 *
 *   1. A heartbeat names all tasks of a server, three times in each lease. One at a time to each server.
 *   2. Results go in sets of one kind. A set without an answer is repeated to the same server first, then its tasks move.
 *   3. A task moves to the next server when its own does not know it, or does not answer. That one may
 *      take the execution over, so it is asked about the task more often. Before, it gets the names of the handlers by
 *      a claim of nothing, because a node gets only executions of handlers that it knows.
 *   4. A claim asks the home server for as many tasks as there are free places. When that fails, the next server is the
 * home.
 *   5. The worker has failed when all servers have refused their last claim. A refusal that is no answer of weir may come
 * from a proxy while its server starts, so it counts only when it has lasted for a lease.
 *
 *   6. At its end the worker leaves all servers at which it has claimed. The next workers get its tasks at once.
 *
 * With one server the next one is the same: the worker waits for its return while the leases go on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "worker/worker_internal.h"

/* --- one request --- */

static const char *verb_path(enum worker_verb verb)
{
    switch (verb) {
    case VERB_CLAIM:
        return "/v1/tasks:claim";
    case VERB_HEARTBEAT:
        return "/v1/tasks:heartbeat";
    case VERB_COMPLETE:
        return "/v1/tasks:complete";
    case VERB_FAIL:
        return "/v1/tasks:fail";
    case VERB_LEAVE:
        return "/v1/tasks:leave";
    }
    return NULL;
}

/* For the log. */
static const char *verb_name(enum worker_verb verb)
{
    static const char *const names[] = {[VERB_CLAIM] = "claim_tasks",
                                        [VERB_HEARTBEAT] = "heartbeat",
                                        [VERB_COMPLETE] = "complete",
                                        [VERB_FAIL] = "fail",
                                        [VERB_LEAVE] = "leave_tasks"};
    return names[verb];
}

/* One that is free, or a new one; NULL when out of memory. It gets the beginning of its body. */
static struct worker_request *open_request(struct worker *worker, enum worker_verb verb, size_t server)
{
    struct worker_request *request = worker->requests;
    while (request != NULL && request->is_under_way) {
        request = request->next;
    }
    if (request == NULL) {
        struct weir_error error;
        request = calloc(1, sizeof *request);
        if (request == NULL) {
            return NULL;
        }
        if (remote_client_open_again(&worker->model, &request->client, &error) != WEIR_OK) {
            remote_client_close(&request->client);
            free(request);
            return NULL;
        }
        request->next = worker->requests;
        worker->requests = request;
    }
    request->worker = worker;
    request->verb = verb;
    request->server = server;
    request->count = 0;
    request->call = (struct remote_client_call){
        .method = "POST", .effect = CLIENT_CHANGES_ONCE, .deadline_us = WORKER_CALL_DEADLINE_US};
    remote_client_choose(&request->client, server);
    remote_client_target(&request->client, verb_path(verb), NULL);
    remote_client_add_body(&request->client, "{\"worker\":", strlen("{\"worker\":"));
    remote_client_add_body_text(&request->client, worker->name);
    return request;
}

static void take_answer(struct worker_request *request, enum weir_status status, json_t *answer,
                        const struct weir_error *error);

/* A request that cannot be sent ends as one without an answer. */
static void send_request(struct worker_request *request)
{
    struct worker *worker = request->worker;
    struct weir_error error = {.status = WEIR_OK};
    request->sent_us = worker_now(worker);
    request->is_under_way = true;
    enum weir_status status = remote_client_begin(&request->client, &request->call, &error);
    if (status == WEIR_OK) {
        bool is_added = curl_easy_setopt(request->client.easy, CURLOPT_PRIVATE, request) == CURLE_OK &&
                        curl_multi_add_handle(worker->multi, request->client.easy) == CURLM_OK;
        if (is_added) {
            return;
        }
        status = remote_client_end(&request->client, &request->call, CURLE_OUT_OF_MEMORY, NULL, &error);
    }
    take_answer(request, status, NULL, &error);
}

/* --- the tasks of a request --- */

/* `mentions` has space for WORKER_TASKS_MAX tasks and is made once. */
static bool can_mention(struct worker_request *request)
{
    if (request->mentions == NULL) {
        request->mentions = calloc(WORKER_TASKS_MAX, sizeof *request->mentions);
    }
    return request->mentions != NULL;
}

/* ,"KEY":NUMBER */
static void request_add_number(struct remote_client *client, const char *key, int64_t number)
{
    char text[64];
    int length = snprintf(text, sizeof text, ",\"%s\":%" PRId64, key, number);
    remote_client_add_body(client, text, (size_t)length);
}

/* {"task":"..."; the caller closes it. */
static void begin_item(struct worker_request *request, struct worker_run *run)
{
    struct remote_client *client = &request->client;
    const char *head = request->count == 0 ? ",\"tasks\":[{\"task\":" : ",{\"task\":";
    remote_client_add_body(client, head, strlen(head));
    remote_client_add_body_text(client, run->task);
    struct worker_mention *mention = &request->mentions[request->count++];
    *mention = (struct worker_mention){.run = run, .log_end = 0};
    run->requests++;
    const json_t *log = client->body.length < WORKER_SET_BYTES ? worker_log_of(run) : NULL;
    if (log != NULL) {
        mention->log_end = run->log_at + run->log_bytes;
        request_add_number(client, "log_at", run->log_at);
        remote_client_add_body(client, ",\"log\":", strlen(",\"log\":"));
        remote_client_body(client, json_incref((json_t *)(uintptr_t)log));
    }
}

/* ,"progress":{...}, if the server has not accepted the last report. */
static void add_progress(struct worker_request *request, struct worker_run *run)
{
    struct remote_client *client = &request->client;
    struct engine_progress report;
    char text[PROGRESS_TEXT_MAX + 1];
    char fraction[48] = "null";
    int64_t number = worker_progress_of(run, &report, text);
    if (number == 0) {
        return;
    }
    request->mentions[request->count - 1].progress = number;
    if (report.parts >= 0) {
        (void)snprintf(fraction, sizeof fraction, "%d.%04d", report.parts / PROGRESS_PARTS, report.parts % PROGRESS_PARTS);
    }
    remote_client_add_body(client, ",\"progress\":{\"fraction\":", strlen(",\"progress\":{\"fraction\":"));
    remote_client_add_body(client, fraction, strlen(fraction));
    remote_client_add_member(client, "text", text);
    remote_client_add_body(client, "}", 1);
}

/* The members of a complete or a fail. */
static void request_add_result(struct remote_client *client, const struct worker_result *result)
{
    if (result->end == ENGINE_CALL_DONE) {
        remote_client_add_json(client, "output", result->output != NULL ? result->output : "null");
        return;
    }
    remote_client_add_member(client, "error_code", result->code);
    remote_client_add_member(client, "error", result->error);
    if (result->end == ENGINE_CALL_FAILED) {
        remote_client_add_body(client, ",\"retry\":false", strlen(",\"retry\":false"));
    } else if (result->delay_us >= 0) {
        request_add_number(client, "retry_after_us", result->delay_us);
    }
}

/* --- what is due --- */

/* Also while the result is being reported: the server may wait for its record. */
static bool wants_heartbeat(const struct worker_run *run, size_t server)
{
    return run->server == server && !run->is_lost && !run->is_settled;
}

/* The next request must begin before a third of the lease is over, so this one ends before. */
static void send_worker_heartbeat(struct worker *worker, size_t server)
{
    struct worker_request *request = open_request(worker, VERB_HEARTBEAT, server);
    worker->servers[server].beat_due_us = time_add(worker_now(worker), worker->lease_us / 3);
    if (request == NULL || !can_mention(request)) {
        return;
    }
    for (struct worker_run *run = worker->runs; run != NULL && request->count < WORKER_TASKS_MAX; run = run->next) {
        if (wants_heartbeat(run, server)) {
            begin_item(request, run);
            add_progress(request, run);
            remote_client_add_body(&request->client, "}", 1);
        }
    }
    if (request->count == 0) {
        worker->servers[server].beat_due_us = TIME_NEVER;
        return;
    }
    remote_client_add_body(&request->client, "]}", 2);
    request->call.deadline_us = worker->lease_us / 4;
    worker->servers[server].beats++;
    send_request(request);
}

static enum worker_verb verb_of_result(const struct worker_run *run)
{
    return run->result.end == ENGINE_CALL_DONE ? VERB_COMPLETE : VERB_FAIL;
}

static bool is_report_due(const struct worker_run *run, int64_t now_us)
{
    return run->has_ended && !run->is_settled && !run->is_lost && !run->is_reporting && run->report_due_us <= now_us;
}

/* The first result that is due, and with it all others of its kind for the same server. */
static void send_reports(struct worker *worker, struct worker_run *first, int64_t now_us)
{
    enum worker_verb verb = verb_of_result(first);
    struct worker_request *request = open_request(worker, verb, first->server);
    if (request == NULL || !can_mention(request)) {
        first->report_due_us = time_add(now_us, WORKER_PAUSE_MOST_US);
        return;
    }
    for (struct worker_run *run = first; run != NULL && request->count < WORKER_TASKS_MAX; run = run->next) {
        bool fits = request->count == 0 ||
                    (!first->is_alone && !run->is_alone &&
                     request->client.body.length + (run->result.output == NULL ? 0 : strlen(run->result.output)) <
                         WORKER_SET_BYTES);
        if (run->server == first->server && is_report_due(run, now_us) && verb_of_result(run) == verb && fits) {
            begin_item(request, run);
            request_add_result(&request->client, &run->result);
            remote_client_add_body(&request->client, "}", 1);
            run->is_reporting = true;
            run->was_reported = true;
        }
    }
    remote_client_add_body(&request->client, "]}", 2);
    worker->servers[first->server].reports++;
    send_request(request);
}

/* `max` 0 makes the handlers known to the server, and is answered at once. */
static void send_claim(struct worker *worker, size_t server, size_t max)
{
    struct worker_request *request = open_request(worker, VERB_CLAIM, server);
    int64_t wait_us = max == 0 || worker->was_refused ? 0 : WORKER_CLAIM_WAIT_US; /* a success is known at once */
    if (request == NULL) {
        worker->claim_due_us = time_add(worker_now(worker), WORKER_PAUSE_MOST_US);
        return;
    }
    request->max = max;
    remote_client_add_body(&request->client, ",\"handlers\":", strlen(",\"handlers\":"));
    remote_client_body(&request->client, json_incref(worker->names));
    request_add_number(&request->client, "max", (int64_t)max);
    request_add_number(&request->client, "wait_us", wait_us);
    if (worker->group[0] != '\0') {
        remote_client_add_member(&request->client, "executor_group", worker->group);
    }
    remote_client_add_body(&request->client, "}", 1);
    request->call.deadline_us = wait_us + WORKER_CALL_DEADLINE_US;
    worker->servers[server].was_claimed_at = true;
    if (max == 0) {
        worker->servers[server].is_announcing = true;
    } else {
        worker->claim = request;
    }
    send_request(request);
}

/* Returns when the next one is due. A server that has enough requests gets the others after an answer. */
static int64_t send_all_reports(struct worker *worker, int64_t now_us)
{
    int64_t next_us = TIME_NEVER;
    struct worker_run *next;
    for (struct worker_run *run = worker->runs; run != NULL; run = next) {
        next = run->next;
        if (is_report_due(run, now_us) && worker->servers[run->server].reports < WORKER_REPORTS_AT_ONCE) {
            run->requests++; /* it stays, so that `next` is right */
            send_reports(worker, run, now_us);
            next = run->next;
            run->requests--;
            worker_release_run(run);
        } else if (run->has_ended && !run->is_settled && !run->is_lost && !run->is_reporting &&
                   run->report_due_us > now_us) {
            next_us = time_earlier(next_us, run->report_due_us);
        }
    }
    return next_us;
}

int64_t worker_send_due(struct worker *worker, int64_t now_us, bool claims)
{
    int64_t next_us = send_all_reports(worker, now_us);
    bool has_handlers = json_array_size(worker->names) > 0;
    for (size_t i = 0; i < worker->server_count; i++) {
        struct worker_server *server = &worker->servers[i];
        if (server->beat_due_us <= now_us && server->beats == 0) {
            bool is_asked = worker->claim != NULL && worker->claim->server == i; /* that names the handlers, too */
            if (server->wants_announce && !server->is_announcing && has_handlers && !is_asked) {
                send_claim(worker, i, 0);
            }
            send_worker_heartbeat(worker, i);
        }
        next_us = server->beats == 0 ? time_earlier(next_us, server->beat_due_us) : next_us;
    }
    bool may_claim = claims && has_handlers && worker->claim == NULL && worker->run_count < worker->tasks_max;
    if (may_claim && worker->claim_due_us <= now_us) {
        send_claim(worker, worker->home, worker->tasks_max - worker->run_count);
    }
    return may_claim && worker->claim == NULL ? time_earlier(next_us, worker->claim_due_us) : next_us;
}

/* The runs that go on are kept, so that no other worker begins their steps. */
static void send_leave(struct worker *worker, size_t server)
{
    struct worker_request *request = open_request(worker, VERB_LEAVE, server);
    if (request == NULL) {
        return;
    }
    const char *before = ",\"keeps\":[";
    for (const struct worker_run *run = worker->runs; run != NULL; run = run->next) {
        if (!run->is_settled) {
            remote_client_add_body(&request->client, before, strlen(before));
            remote_client_add_body_text(&request->client, run->task);
            before = ",";
        }
    }
    remote_client_add_body(&request->client, before[1] == '\0' ? "]}" : "}", before[1] == '\0' ? 2 : 1);
    request->call.deadline_us = WORKER_LEAVE_US;
    worker->leaves++;
    send_request(request);
}

bool worker_leave(struct worker *worker, int64_t now_us)
{
    bool begins = worker->leave_until_us == 0;
    worker->leave_until_us = begins ? time_add(now_us, WORKER_LEAVE_US) : worker->leave_until_us;
    for (size_t i = 0; i < worker->server_count && begins; i++) {
        if (worker->servers[i].was_claimed_at && !worker->servers[i].is_away) {
            send_leave(worker, i);
        }
    }
    return worker->leaves == 0 || worker->leave_until_us <= now_us;
}

/* --- answers --- */

/* Notes whether the claim was refused: the token, the group or the server is the wrong one. */
static void note_claim(struct worker_request *request, enum weir_status status)
{
    struct worker_server *server = &request->worker->servers[request->server];
    long number = request->client.number;
    bool had_refused = server->has_refused;
    server->is_doubtful = status == WEIR_INVALID_CONFIG || status == WEIR_STORE_NOT_WEIR;
    server->has_refused =
        status != WEIR_OK && (server->is_doubtful || (number >= 400 && number < 500 && number != 408 && number != 429));
    request->worker->was_refused = server->has_refused;
    server->refused_us = had_refused && server->has_refused ? server->refused_us : worker_now(request->worker);
}

static bool all_servers_refuse(const struct worker *worker)
{
    int64_t now_us = worker_now(worker);
    bool all = true;
    for (size_t i = 0; i < worker->server_count; i++) {
        const struct worker_server *server = &worker->servers[i];
        bool counts = !server->is_doubtful || time_add(server->refused_us, worker->lease_us) <= now_us;
        all = all && server->has_refused && counts;
    }
    return all;
}

/* One event when a server goes away, not one for each request. */
static void note_away(struct worker_request *request, bool is_away, const struct weir_error *error)
{
    struct worker_server *server = &request->worker->servers[request->server];
    if (is_away && !server->is_away) {
        worker_note_failure(request->worker, verb_name(request->verb), error);
    }
    server->is_away = is_away;
}

/* A refusal moves the home, too: another server may have the group, or a store that answers. */
static void take_claim(struct worker_request *request, enum weir_status status, const json_t *answer,
                       const struct weir_error *error)
{
    struct worker *worker = request->worker;
    struct weir_error reason = {.status = WEIR_OK};
    bool is_announcement = request->max == 0;
    if (is_announcement) {
        worker->servers[request->server].is_announcing = false;
    } else {
        worker->claim = NULL;
    }
    if (status == WEIR_OK) {
        status = worker_begin_tasks(worker, request->server, request->sent_us, answer, &reason);
        error = &reason;
    }
    note_claim(request, status);
    if (status == WEIR_OK) {
        int64_t soonest_us =
            time_add(request->sent_us, json_array_size(json_object_get(answer, "tasks")) > 0 ? 0 : WORKER_PAUSE_FIRST_US);
        worker->servers[request->server].wants_announce = false;
        worker->claim_due_us = is_announcement ? worker->claim_due_us : soonest_us;
        worker->claim_pause_us = WORKER_PAUSE_FIRST_US;
        worker_note_health(worker, NULL);
        return;
    }
    if (all_servers_refuse(worker)) {
        worker_note_health(worker, error);
    }
    if (!is_announcement) {
        worker->home = (request->server + 1) % worker->server_count;
        worker->claim_due_us = time_add(worker_now(worker), worker->claim_pause_us);
        worker->claim_pause_us = time_earlier(2 * worker->claim_pause_us, WORKER_PAUSE_MOST_US);
    }
}

/* The verdict on a task. A set of one task is answered by the status of its verdict. NULL: there is none. */
static const char *verdict_on(const struct worker_request *request, enum weir_status status, const json_t *answer,
                              const struct worker_run *run)
{
    size_t i;
    const json_t *item;
    if (status != WEIR_OK) {
        const char *code = request->client.code;
        return strcmp(code, "task_lost") == 0 || strcmp(code, "task_unknown") == 0 ? code : NULL;
    }
    json_array_foreach(json_object_get(answer, "tasks"), i, item)
    {
        const char *task = json_string_value(json_object_get(item, "task"));
        if (task != NULL && strcmp(task, run->task) == 0) {
            return json_string_value(json_object_get(item, "verdict"));
        }
    }
    return NULL;
}

/* A task with a result that may be on record is lost to heartbeats: the repeated report decides. */
static void take_heartbeat_verdict(struct worker_request *request, struct worker_run *run, const char *verdict)
{
    bool is_cancelled = verdict != NULL && strcmp(verdict, "cancelled") == 0;
    if (is_cancelled || (verdict != NULL && strcmp(verdict, "accepted") == 0)) {
        run->ends_us = time_later(run->ends_us, time_add(request->sent_us, request->worker->lease_us));
        if (is_cancelled && !run->is_cancelled && !run->has_ended) {
            run->is_cancelled = true;
            engine_cancel_call(request->worker->engine, run, false);
        }
    } else if (verdict != NULL && strcmp(verdict, "task_lost") == 0) {
        if (!run->was_reported) {
            worker_lose_run(run);
        }
    } else if (run->server == request->server) {
        worker_move_run(run);
    }
}

/* The report is due again later; `moves`: to the next server. */
static void repeat_report(struct worker_run *run, bool moves)
{
    run->report_due_us = time_add(worker_now(run->worker), run->pause_us);
    run->pause_us = time_earlier(2 * run->pause_us, WORKER_PAUSE_MOST_US);
    if (moves) {
        worker_move_run(run);
    } else {
        run->was_repeated = true;
    }
}

/* A server that refuses a set may refuse it for one of its results, so they are sent one by one. */
static void take_report_verdict(struct worker_request *request, struct worker_run *run, const char *verdict,
                                const struct weir_error *error)
{
    long number = request->client.number;
    run->is_reporting = false;
    if (verdict != NULL && strcmp(verdict, "accepted") == 0) {
        worker_settle_run(run, true);
    } else if (verdict != NULL && strcmp(verdict, "task_lost") == 0) {
        worker_lose_run(run);
    } else if (verdict != NULL) {
        repeat_report(run, true);
    } else if ((number == 400 || number == 413) && request->count > 1) {
        run->is_alone = true;
    } else if ((number == 400 || number == 413) && run->result.end != ENGINE_CALL_FAILED) {
        worker_refuse_result(run, error->message);
    } else {
        repeat_report(run, run->was_repeated);
    }
    if (run->is_lost) {
        worker_settle_run(run, false); /* unless it was accepted */
    }
}

/* The verdicts change runs alone; then all of them are released, and some freed. */
static void take_verdicts(struct worker_request *request, enum weir_status status, const json_t *answer,
                          const struct weir_error *error)
{
    struct worker_server *server = &request->worker->servers[request->server];
    bool is_heartbeat = request->verb == VERB_HEARTBEAT;
    if (is_heartbeat) {
        server->beats--;
    } else {
        server->reports--;
    }
    for (size_t i = 0; i < request->count; i++) {
        const struct worker_mention *mention = &request->mentions[i];
        struct worker_run *run = mention->run;
        const char *verdict = verdict_on(request, status, answer, run);
        run->requests--;
        if (verdict != NULL && strcmp(verdict, "task_unknown") != 0) {
            worker_log_accepted(run, mention->log_end);
            run->progress_accepted =
                mention->progress > 0 && run->server == request->server ? mention->progress : run->progress_accepted;
        }
        if (is_heartbeat) {
            take_heartbeat_verdict(request, run, verdict);
        } else {
            take_report_verdict(request, run, verdict, error);
        }
        worker_release_run(run);
    }
}

/* The number of an answer shows that the server is there, also by a refusal. */
static void take_answer(struct worker_request *request, enum weir_status status, json_t *answer,
                        const struct weir_error *error)
{
    bool is_verdict = strncmp(request->client.code, "task_", 5) == 0;
    note_away(request, status != WEIR_OK && !is_verdict, error);
    if (request->verb == VERB_CLAIM) {
        take_claim(request, status, answer, error);
    } else if (request->verb == VERB_LEAVE) {
        request->worker->leaves--;
    } else {
        take_verdicts(request, status, answer, error);
    }
    json_decref(answer);
    request->is_under_way = false;
}

/* An answer may begin runs and free others; requests are only marked as free. */
void worker_take_answers(struct worker *worker)
{
    int left;
    for (CURLMsg *message = curl_multi_info_read(worker->multi, &left); message != NULL;
         message = curl_multi_info_read(worker->multi, &left)) {
        struct worker_request *request = NULL;
        CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;
        CURLcode known = curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)(void *)&request);
        INVARIANT(known == CURLE_OK && request != NULL && request->is_under_way);
        (void)curl_multi_remove_handle(worker->multi, easy); /* `message` is gone after this */
        struct weir_error error = {.status = WEIR_OK};
        json_t *answer = NULL;
        enum weir_status status = remote_client_end(&request->client, &request->call, code, &answer, &error);
        take_answer(request, status, answer, &error);
    }
}

/* --- the end --- */

/* The answer, if there is one, is not read. */
static void abort_request(struct worker_request *request)
{
    struct weir_error error;
    (void)curl_multi_remove_handle(request->worker->multi, request->client.easy);
    enum weir_status status = remote_client_end(&request->client, &request->call, CURLE_ABORTED_BY_CALLBACK, NULL, &error);
    INVARIANT(status != WEIR_OK);
    request->is_under_way = false;
}

void worker_abort_claim(struct worker *worker)
{
    if (worker->claim != NULL) {
        abort_request(worker->claim);
        worker->claim = NULL;
    }
}

/* Results that they carry are lost: the leases of their tasks end by themselves. */
void worker_close_requests(struct worker *worker)
{
    while (worker->requests != NULL) {
        struct worker_request *request = worker->requests;
        worker->requests = request->next;
        if (request->is_under_way) {
            abort_request(request);
        }
        remote_client_close(&request->client);
        free(request->mentions);
        free(request);
    }
}
