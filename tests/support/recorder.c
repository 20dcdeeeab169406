/* A report sink that stores every report in the order of arrival.
 *
 * Engines report from their own threads, so a lock protects the list, and a condition variable wakes the waiting test. In
 * the automatic mode the recorder answers inside of the report, as the fastest possible store. After the deadline it prints
 * all reports, so that a failed wait shows the events so far.
 */
#include "support/recorder.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void recorder_answer(struct recorder *recorder, const struct report *report, enum weir_status status)
{
    struct recorded recorded = {
        .fence = report->fence, .kind = report->kind, .step_index = report->step_index, .status = status};
    memcpy(recorded.id, report->id, sizeof recorded.id);
    engine_recorded(recorder->engine, &recorded, 1);
}

static bool wants_answer(const struct report *report)
{
    return report->kind == REPORT_STEP || report_is_last(report->kind);
}

static void take(void *context, struct report *report)
{
    struct recorder *recorder = context;
    (void)pthread_mutex_lock(&recorder->lock);
    recorder->count++;
    recorder->ended += report->kind == REPORT_ENDED;
    bool is_silent = recorder->is_silent;
    bool answers = !recorder->is_manual && wants_answer(report);
    if (!is_silent) {
        report->next = NULL;
        if (recorder->last != NULL) {
            recorder->last->next = report;
        } else {
            recorder->first = report;
        }
        recorder->last = report;
    }
    (void)pthread_cond_broadcast(&recorder->changed);
    if (answers) {
        recorder_answer(recorder, report, WEIR_OK);
    }
    (void)pthread_mutex_unlock(&recorder->lock);
    if (is_silent) {
        report_free(report);
    }
}

static void take_progress(void *context, const struct engine_progress *progress)
{
    struct recorder *recorder = context;
    (void)pthread_mutex_lock(&recorder->lock);
    if (progress->text != NULL) {
        (void)snprintf(recorder->progress, sizeof recorder->progress, "%s", progress->text);
    }
    recorder->has_ended_progress = progress->text == NULL;
    (void)pthread_mutex_unlock(&recorder->lock);
}

void recorder_init(struct recorder *recorder, struct engine *engine)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->engine = engine;
    (void)pthread_mutex_init(&recorder->lock, NULL);
    (void)pthread_cond_init(&recorder->changed, NULL);
    engine_set_sink(engine, (struct report_sink){.report = take, .context = recorder, .progress = take_progress});
}

void recorder_close(struct recorder *recorder)
{
    while (recorder->first != NULL) {
        struct report *report = recorder->first;
        recorder->first = report->next;
        report_free(report);
    }
    (void)pthread_cond_destroy(&recorder->changed);
    (void)pthread_mutex_destroy(&recorder->lock);
}

static bool fits(const struct report *report, enum report_kind kind, const char *id, const char *step, int state)
{
    return report->kind == kind && (id == NULL || strcmp(report->id, id) == 0) &&
           (step == NULL || strcmp(report->step.step, step) == 0) && (state < 0 || (int)report->step.state == state);
}

static const struct report *find(const struct recorder *recorder, enum report_kind kind, const char *id, const char *step,
                                 int state, size_t n)
{
    for (const struct report *report = recorder->first; report != NULL; report = report->next) {
        if (fits(report, kind, id, step, state) && --n == 0) {
            return report;
        }
    }
    return NULL;
}

const struct report *recorder_wait(struct recorder *recorder, enum report_kind kind, const char *id, const char *step,
                                   int state, size_t n)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RECORDER_DEADLINE_S;
    (void)pthread_mutex_lock(&recorder->lock);
    const struct report *report;
    int waited = 0;
    while ((report = find(recorder, kind, id, step, state, n)) == NULL && waited == 0) {
        waited = pthread_cond_timedwait(&recorder->changed, &recorder->lock, &until);
    }
    (void)pthread_mutex_unlock(&recorder->lock);
    if (report == NULL) {
        recorder_print(recorder);
    }
    return report;
}

size_t recorder_count(struct recorder *recorder, enum report_kind kind, const char *id, const char *step, int state)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&recorder->lock);
    for (const struct report *report = recorder->first; report != NULL; report = report->next) {
        count += fits(report, kind, id, step, state);
    }
    (void)pthread_mutex_unlock(&recorder->lock);
    return count;
}

static const char *kind_name(enum report_kind kind)
{
    switch (kind) {
    case REPORT_STARTED:
        return "STARTED";
    case REPORT_REFUSED:
        return "REFUSED";
    case REPORT_UNREACHABLE:
        return "UNREACHABLE";
    case REPORT_UNKNOWN:
        return "UNKNOWN";
    case REPORT_STEP:
        return "STEP";
    case REPORT_ENDED:
        return "ENDED";
    case REPORT_GIVEN_BACK:
        return "GIVEN_BACK";
    case REPORT_PARKED:
        return "PARKED";
    case REPORT_ENGINE_DOWN:
        return "ENGINE_DOWN";
    case REPORT_ENGINE_UP:
        return "ENGINE_UP";
    case REPORT_ENGINE_IMPAIRED:
        return "ENGINE_IMPAIRED";
    case REPORT_ENGINE_SOUND:
        return "ENGINE_SOUND";
    case REPORT_INTERRUPTED:
        return "INTERRUPTED";
    case REPORT_SHORTAGE:
        return "SHORTAGE";
    }
    return "?";
}

/* The last characters of an execution's id identify it; a report of no execution has none. */
static const char *short_id(const char *id)
{
    enum { SHORT = 6 };
    size_t length = strlen(id);
    return length > SHORT ? id + length - SHORT : id;
}

void recorder_print(struct recorder *recorder)
{
    (void)pthread_mutex_lock(&recorder->lock);
    for (const struct report *report = recorder->first; report != NULL; report = report->next) {
        (void)fprintf(stderr, "# %s %s %s %s attempt %d %s %s end %d %s %s\n", short_id(report->id),
                      kind_name(report->kind), report->step.step,
                      report->has_step ? step_state_name(report->step.state) : "", report->step.attempt,
                      report->step.error_code, report->step.error != NULL ? report->step.error : "", (int)report->end_state,
                      report->error_code, report->error != NULL ? report->error : "");
    }
    (void)pthread_mutex_unlock(&recorder->lock);
}
