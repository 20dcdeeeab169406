/* The queue of spans, and the thread that sends them.
 *
 *   1. The subscriber makes the spans of an event and puts them into the list `filling`. When it is full they are dropped
 *      and counted.
 *   2. The thread waits until a batch is full, or its first span has waited SPANS_WAIT_US. Then it exchanges `filling` with
 *      the empty list `sending`: no span is copied, and the lock is held for a moment only.
 *   3. It sends `sending` in batches. The collector's answer decides:
 *        2xx                          the batch is exported
 *        408, 429, 502 to 504, or no answer   the batch is sent again after a pause, SPANS_TRIES_MAX times in all
 *        anything else                the batch is dropped, because it would be refused again
 *   4. The pause doubles with each failure, also over batches, and ends with the first success.
 *   5. span_exporter_close() wakes the thread. From then on there is no pause. After SPANS_CLOSE_US the request under
 *      way is ended and all that is left is dropped.
 *
 * The thread emits EVENT_SPANS_EXPORTED and EVENT_SPANS_DROPPED, after each request and never for each span. The subscriber
 * must never wait for the thread. The error of an event never holds a span's text.
 */
#include "observe/span_exporter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/libcurl.h"
#include "base/thread.h"
#include "observe/spans.h"

#define OTLP_PATH "/v1/traces"

enum { REASON_BYTES = 256 };

struct span_list {
    struct span *spans; /* SPANS_QUEUED_MAX */
    size_t count;
};

struct span_exporter {
    double ratio;
    struct event_bus *events;
    const struct clock *clock;
    char url[SPANS_URL_BYTES_MAX];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. */
    struct span_list filling;
    struct random random;
    int64_t first_us; /* of `filling`, boot clock */
    int64_t dropped;  /* not yet reported */
    bool closes;
    int64_t close_us; /* when the last request ends at the latest, boot clock */
    /* The thread's own. */
    struct span_list sending;
    CURL *easy;
    struct curl_slist *headers;
    struct text body;
    int failures; /* in a row */
    char reason[REASON_BYTES];
};

/* --- the subscriber --- */

static void span_exporter_event(void *context, const struct event *event)
{
    struct span_exporter *exporter = context;
    struct span made[SPANS_OF_EVENT_MAX];
    (void)pthread_mutex_lock(&exporter->lock);
    size_t count = spans_of_event(event, exporter->ratio, clock_wall(exporter->clock), &exporter->random, made);
    struct span_list *list = &exporter->filling;
    if (list->count + count > SPANS_QUEUED_MAX) {
        exporter->dropped += (int64_t)count;
        count = 0;
    }
    if (count > 0) {
        bool was_short = list->count < SPANS_BATCH_MAX;
        exporter->first_us = list->count == 0 ? clock_boot(exporter->clock) : exporter->first_us;
        bool wakes = list->count == 0;
        memcpy(&list->spans[list->count], made, count * sizeof made[0]);
        list->count += count;
        if (wakes || (was_short && list->count >= SPANS_BATCH_MAX)) {
            (void)pthread_cond_signal(&exporter->changed);
        }
    }
    (void)pthread_mutex_unlock(&exporter->lock);
}

/* --- the thread --- */

/* Under the lock: waits at most so long. */
static void wait_for_change(struct span_exporter *exporter, int64_t duration_us)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + duration_us % MICROSECONDS_PER_SECOND * 1000;
    until.tv_sec += (time_t)(duration_us / MICROSECONDS_PER_SECOND + nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    (void)pthread_cond_timedwait(&exporter->changed, &exporter->lock, &until);
}

/* Step 2. False: there is nothing left, and the exporter closes. */
static bool take_spans(struct span_exporter *exporter)
{
    (void)pthread_mutex_lock(&exporter->lock);
    struct span_list *filling = &exporter->filling;
    while (!exporter->closes && filling->count < SPANS_BATCH_MAX) {
        int64_t waits_us = SPANS_WAIT_US;
        if (filling->count > 0) {
            waits_us = exporter->first_us + SPANS_WAIT_US - clock_boot(exporter->clock);
        }
        if (waits_us <= 0) {
            break;
        }
        wait_for_change(exporter, waits_us);
    }
    struct span_list full = *filling;
    *filling = exporter->sending;
    exporter->sending = full;
    (void)pthread_mutex_unlock(&exporter->lock);
    return full.count > 0;
}

/* Reports what was dropped since the last call, and `more`. */
static void report_dropped(struct span_exporter *exporter, size_t more)
{
    (void)pthread_mutex_lock(&exporter->lock);
    int64_t dropped = exporter->dropped + (int64_t)more;
    exporter->dropped = 0;
    (void)pthread_mutex_unlock(&exporter->lock);
    if (dropped > 0) {
        struct event event = {.type = EVENT_SPANS_DROPPED,
                              .count = dropped,
                              .error = exporter->reason[0] == '\0' ? "the queue was full" : exporter->reason};
        event_emit(exporter->events, &event);
    }
}

/* Called by libcurl about once a second: anything but 0 ends the request. */
static int end_late_request(void *context, curl_off_t to_read, curl_off_t read, curl_off_t to_write, curl_off_t written)
{
    struct span_exporter *exporter = context;
    (void)to_read;
    (void)read;
    (void)to_write;
    (void)written;
    (void)pthread_mutex_lock(&exporter->lock);
    bool is_late = exporter->closes && clock_boot(exporter->clock) >= exporter->close_us;
    (void)pthread_mutex_unlock(&exporter->lock);
    return is_late;
}

/* The answer's text is not read: the status alone decides. */
static size_t discard_answer(char *bytes, size_t size, size_t count, void *context)
{
    (void)bytes;
    (void)context;
    return size * count;
}

enum send_outcome { SEND_DONE, SEND_LATER, SEND_REFUSED };

/* Step 3, for one request. */
static enum send_outcome send_body(struct span_exporter *exporter)
{
    long status = 0;
    bool is_set =
        curl_easy_setopt(exporter->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)exporter->body.length) == CURLE_OK &&
        curl_easy_setopt(exporter->easy, CURLOPT_POSTFIELDS, exporter->body.data) == CURLE_OK;
    CURLcode code = is_set ? curl_easy_perform(exporter->easy) : CURLE_OUT_OF_MEMORY;
    if (code != CURLE_OK) {
        (void)snprintf(exporter->reason, sizeof exporter->reason, "the collector: %s", curl_easy_strerror(code));
        return SEND_LATER;
    }
    (void)curl_easy_getinfo(exporter->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) {
        exporter->reason[0] = '\0';
        return SEND_DONE;
    }
    (void)snprintf(exporter->reason, sizeof exporter->reason, "the collector answered with status %ld", status);
    return status == 408 || status == 429 || (status >= 502 && status <= 504) ? SEND_LATER : SEND_REFUSED;
}

/* Step 4. False: the exporter closes and its time is over. */
static bool pause_after_failure(struct span_exporter *exporter)
{
    int64_t backoff_us = SPANS_BACKOFF_US;
    for (int i = 1; i < exporter->failures && backoff_us < SPANS_BACKOFF_MAX_US; i++) {
        backoff_us *= 2;
    }
    backoff_us = backoff_us > SPANS_BACKOFF_MAX_US ? SPANS_BACKOFF_MAX_US : backoff_us;
    (void)pthread_mutex_lock(&exporter->lock);
    int64_t until_us =
        clock_boot(exporter->clock) + backoff_us - (int64_t)random_below(&exporter->random, (uint64_t)backoff_us / 2);
    int64_t left_us = until_us - clock_boot(exporter->clock);
    while (left_us > 0 && !exporter->closes) {
        wait_for_change(exporter, left_us);
        left_us = until_us - clock_boot(exporter->clock);
    }
    bool goes_on = !exporter->closes;
    (void)pthread_mutex_unlock(&exporter->lock);
    return goes_on;
}

/* Sends one batch, with its repetitions. */
static void send_batch(struct span_exporter *exporter, const struct span *spans, size_t count)
{
    enum send_outcome outcome = SEND_REFUSED;
    text_clear(&exporter->body);
    if (spans_write(spans, count, &exporter->body) != WEIR_OK) {
        text_copy(exporter->reason, sizeof exporter->reason, "no memory for a batch");
        report_dropped(exporter, count);
        return;
    }
    for (int tries = 0; tries < SPANS_TRIES_MAX; tries++) {
        outcome = send_body(exporter);
        exporter->failures = outcome == SEND_DONE ? 0 : exporter->failures + 1;
        if (outcome != SEND_LATER || !pause_after_failure(exporter)) {
            break;
        }
        report_dropped(exporter, 0); /* of the queue, which may have filled meanwhile */
    }
    if (outcome == SEND_DONE) {
        struct event event = {.type = EVENT_SPANS_EXPORTED, .count = (int64_t)count};
        event_emit(exporter->events, &event);
    }
    report_dropped(exporter, outcome == SEND_DONE ? 0 : count);
}

static void *run_exporter(void *context)
{
    struct span_exporter *exporter = context;
    bool closes = false;
    while (!closes) {
        bool has_spans = take_spans(exporter);
        struct span_list *sending = &exporter->sending;
        for (size_t sent = 0; sent < sending->count;) {
            size_t count = sending->count - sent < SPANS_BATCH_MAX ? sending->count - sent : SPANS_BATCH_MAX;
            send_batch(exporter, &sending->spans[sent], count);
            sent += count;
        }
        sending->count = 0;
        report_dropped(exporter, 0);
        (void)pthread_mutex_lock(&exporter->lock);
        closes = exporter->closes && !has_spans;
        (void)pthread_mutex_unlock(&exporter->lock);
    }
    return NULL;
}

/* --- opening and closing --- */

/* Checks the URL and adds the path of OTLP. */
static enum weir_status read_endpoint(const char *endpoint, char *to, struct weir_error *error)
{
    size_t length = strlen(endpoint);
    bool is_http = strncmp(endpoint, "http://", 7) == 0 || strncmp(endpoint, "https://", 8) == 0;
    while (length > 0 && endpoint[length - 1] == '/') {
        length--;
    }
    bool has_path =
        length > strlen(OTLP_PATH) && strncmp(endpoint + length - strlen(OTLP_PATH), OTLP_PATH, strlen(OTLP_PATH)) == 0;
    if (!is_http || strpbrk(endpoint, " \t\r\n\"<>?#") != NULL || length + sizeof OTLP_PATH > SPANS_URL_BYTES_MAX) {
        error_set(error, WEIR_INVALID_CONFIG, "otel.endpoint: \"%.100s\" is no URL of a collector", endpoint);
        error_hint(error, "for example http://127.0.0.1:4318");
        return WEIR_INVALID_CONFIG;
    }
    (void)snprintf(to, SPANS_URL_BYTES_MAX, "%.*s%s", (int)length, endpoint, has_path ? "" : OTLP_PATH);
    return WEIR_OK;
}

/* False when out of memory, or when libcurl lacks an option. */
static bool prepare_requests(struct span_exporter *exporter)
{
    CURL *easy = exporter->easy = curl_easy_init();
    exporter->headers = curl_slist_append(NULL, "Content-Type: application/json");
    struct curl_slist *longer = curl_slist_append(exporter->headers, "Expect:"); /* no pause before the body */
    return easy != NULL && exporter->headers != NULL && longer != NULL &&
           curl_easy_setopt(easy, CURLOPT_URL, exporter->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exporter->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, discard_answer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, end_late_request) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_XFERINFODATA, exporter) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(SPANS_TIMEOUT_US / MICROSECONDS_PER_MS)) == CURLE_OK;
}

/* Not the thread, which has ended or was never there. */
static void free_exporter(struct span_exporter *exporter)
{
    if (exporter->easy != NULL) {
        curl_easy_cleanup(exporter->easy);
    }
    curl_slist_free_all(exporter->headers);
    text_close(&exporter->body);
    free(exporter->filling.spans);
    free(exporter->sending.spans);
    (void)pthread_cond_destroy(&exporter->changed);
    (void)pthread_mutex_destroy(&exporter->lock);
    free(exporter);
}

enum weir_status span_exporter_open(const struct span_exporter_options *options, struct span_exporter **ret_exporter,
                                    struct weir_error *error)
{
    INVARIANT(options != NULL && options->endpoint != NULL && options->events != NULL && ret_exporter != NULL);
    char url[SPANS_URL_BYTES_MAX];
    pthread_condattr_t attributes;
    enum weir_status status = read_endpoint(options->endpoint, url, error);
    if (status == WEIR_OK) {
        status = libcurl_load("otel.endpoint", error);
    }
    struct span_exporter *exporter = status == WEIR_OK ? calloc(1, sizeof *exporter) : NULL;
    if (exporter == NULL) {
        return status == WEIR_OK ? error_out_of_memory(error) : status;
    }
    exporter->ratio = options->ratio;
    exporter->events = options->events;
    exporter->clock = options->clock == NULL ? clock_system() : options->clock;
    exporter->body.max = SPANS_TEXT_BYTES_MAX;
    memcpy(exporter->url, url, sizeof url);
    random_seed_from_system(&exporter->random);
    exporter->filling.spans = calloc(SPANS_QUEUED_MAX, sizeof *exporter->filling.spans);
    exporter->sending.spans = calloc(SPANS_QUEUED_MAX, sizeof *exporter->sending.spans);
    (void)pthread_mutex_init(&exporter->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&exporter->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (exporter->filling.spans == NULL || exporter->sending.spans == NULL || !prepare_requests(exporter)) {
        free_exporter(exporter);
        return error_out_of_memory(error);
    }
    int failure = thread_start(&exporter->thread, run_exporter, exporter);
    if (failure != 0) {
        free_exporter(exporter);
        return error_set(error, WEIR_SYSTEM, "the system cannot start a thread for the export of spans: %s",
                         strerror(failure));
    }
    (void)event_subscribe(exporter->events, span_exporter_event, exporter);
    *ret_exporter = exporter;
    return WEIR_OK;
}

void span_exporter_close(struct span_exporter *exporter)
{
    if (exporter == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&exporter->lock);
    exporter->closes = true;
    exporter->close_us = clock_boot(exporter->clock) + SPANS_CLOSE_US;
    (void)pthread_cond_signal(&exporter->changed);
    (void)pthread_mutex_unlock(&exporter->lock);
    (void)pthread_join(exporter->thread, NULL);
    free_exporter(exporter);
}
