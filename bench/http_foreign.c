/* The time of a GET of an execution of another workspace, beside that of an id that no execution has. Both are answered
 * with 404, and their times must not show which of the ids exist.
 *
 * One token asks over one connection, in pairs: an id of another workspace, and the same id with other digits at its end,
 * which an index seeks in the same place. Every second pair begins with the missing id. So both kinds have the same
 * minutes and the same state of the caches, and the medians differ by the work of the server alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"
#include "http_foreign.h"
#include "http_load.h"
#include "http_tenant.h"
#include "store/bulk.h"

enum { IDS = 1000, PAIRS = 20000, ROWS = 100000, ANSWER_MAX = 4096, DIGITS_CHANGED = 4 };

static struct weir_error fault;

struct foreign {
    int fd;
    char secret[TOKEN_SECRET_LENGTH + 1];
    char ids[IDS][UUID_TEXT_MAX];
    double foreign_us[PAIRS];
    double missing_us[PAIRS];
};

/* Whether the answer in `bytes` is whole. */
static bool is_whole(const char *bytes, size_t filled)
{
    static const char field_name[] = "\r\ncontent-length: ";
    const char *end = strstr(bytes, "\r\n\r\n");
    const char *field = end == NULL ? NULL : strcasestr(bytes, field_name);
    BENCH_CHECK(end == NULL || (field != NULL && field < end));
    return end != NULL && filled >= (size_t)(end + 4 - bytes) + strtoul(field + strlen(field_name), NULL, 10);
}

/* Microseconds until the 404 is there. */
static double time_refusal(const struct foreign *foreign, const char *id)
{
    char path[128];
    char request[HTTP_TENANT_REQUEST_MAX];
    char answer[ANSWER_MAX] = "";
    size_t filled = 0;
    (void)snprintf(path, sizeof path, "/v1/executions/%s", id);
    size_t length = http_tenant_request(foreign->secret, "GET", path, NULL, request);
    double began = bench_now();
    http_load_send(foreign->fd, request, length);
    while (!is_whole(answer, filled)) {
        ssize_t got = recv(foreign->fd, answer + filled, sizeof answer - 1 - filled, 0);
        BENCH_CHECK(got > 0);
        filled += (size_t)got;
        answer[filled] = '\0';
    }
    double lasted = bench_now() - began;
    if (strncmp(answer, "HTTP/1.1 404 ", strlen("HTTP/1.1 404 ")) != 0) {
        bench_fail(__FILE__, __LINE__, answer);
    }
    return lasted * 1e6;
}

/* The same id but for its last digits. */
static void make_missing(const char *id, char missing[UUID_TEXT_MAX])
{
    memcpy(missing, id, UUID_TEXT_MAX);
    for (size_t i = UUID_TEXT_LENGTH - DIGITS_CHANGED; i < UUID_TEXT_LENGTH; i++) {
        missing[i] = missing[i] == '5' ? 'a' : '5';
    }
}

static void measure_pairs(struct bench *bench, struct foreign *foreign, const char *kind)
{
    size_t pairs = bench->quick ? 50 : PAIRS;
    char name[FIGURE_NAME_MAX];
    char missing[UUID_TEXT_MAX];
    for (size_t i = 0; i < pairs; i++) {
        const char *id = foreign->ids[i % IDS];
        make_missing(id, missing);
        if (i % 2 == 0) {
            foreign->foreign_us[i] = time_refusal(foreign, id);
            foreign->missing_us[i] = time_refusal(foreign, missing);
        } else {
            foreign->missing_us[i] = time_refusal(foreign, missing);
            foreign->foreign_us[i] = time_refusal(foreign, id);
        }
    }
    double found = bench_percentile(foreign->foreign_us, pairs, 0.5);
    double absent = bench_percentile(foreign->missing_us, pairs, 0.5);
    (void)snprintf(name, sizeof name, "http, missing id beside %s ones: p50", kind);
    bench_note(bench, name, absent, "us");
    (void)snprintf(name, sizeof name, "http, foreign %s id: p50", kind);
    bench_report(bench, name, found, "us", absent, GOAL_NONE, 0);
    (void)snprintf(name, sizeof name, "http, foreign %s id: difference", kind);
    bench_report(bench, name, fabs(found / absent - 1) * 100, "%", 0, VALUE_AT_MOST, 5);
}

static void cancel_all(struct store *store, const struct foreign *foreign)
{
    for (size_t i = 0; i < IDS; i++) {
        struct execution_filter filter = {.id = foreign->ids[i]};
        struct bulk_result result;
        BENCH_OK(store_bulk_one(store, BULK_CANCEL, NULL, &filter, &result, &fault), &fault);
        BENCH_CHECK(result.changed == 1);
    }
}

/* The other workspace has many waiting executions; those that are asked for lie at the end of them. */
void bench_http_foreign(struct bench *bench)
{
    struct daemon daemon;
    int port = http_load_free_port();
    struct store *store = fixture_store(bench, "http-foreign");
    struct foreign *foreign = calloc(1, sizeof *foreign);
    struct enqueue_request request = {.workspace = "w00001", .workflow = "noop"};
    struct enqueue_result result;
    BENCH_CHECK(foreign != NULL);
    fixture_workspaces(store, 0, 2, "enterprise");
    BENCH_OK(store_set_paused(store, NULL, true, &fault), &fault);
    fixture_hurry(store, true);
    fixture_fill(store, 1, 1, bench->quick ? 1000 : ROWS);
    for (size_t i = 0; i < IDS; i++) {
        BENCH_OK(store_enqueue(store, &request, 1, &result, &fault), &fault);
        BENCH_OK(result.status, &result.error);
        memcpy(foreign->ids[i], result.id, UUID_TEXT_MAX);
    }
    fixture_hurry(store, false);
    http_tenant_token(store, "tenant", "w00000", 0, foreign->secret);
    daemon_serve_http(bench, store_url(store), port, &daemon);
    foreign->fd = http_load_connect(port);
    measure_pairs(bench, foreign, "waiting");
    cancel_all(store, foreign);
    measure_pairs(bench, foreign, "ended");
    (void)close(foreign->fd);
    daemon_stop(&daemon);
    fixture_check(store);
    store_close(store);
    free(foreign);
}
