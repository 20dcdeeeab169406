#include "echo_engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bench.h"

struct echo_start {
    char id[UUID_TEXT_MAX];
    int64_t fence;
};

struct echo_engine {
    struct engine engine; /* first */
    pthread_mutex_t lock;
    pthread_cond_t some;
    pthread_t thread;
    struct echo_start *starts; /* a ring of `most` */
    size_t most;
    size_t first;
    size_t waiting;
    size_t running; /* not yet durably ended */
    bool threads_run;
    bool closing;
};

static struct echo_engine *echo_of(struct engine *engine)
{
    return (struct echo_engine *)engine;
}

static void answer(struct echo_engine *self, const struct echo_start *start)
{
    struct report *started = report_new(REPORT_STARTED, start->id, start->fence);
    struct report *ended = report_new(REPORT_ENDED, start->id, start->fence);
    BENCH_CHECK(started != NULL && ended != NULL);
    ended->end_state = END_COMPLETED;
    ended->has_step = true;
    ended->step.state = STEP_COMPLETED;
    ended->step.attempt = 1;
    text_copy(ended->step.step, sizeof ended->step.step, "run");
    engine_report(&self->engine, started);
    engine_report(&self->engine, ended);
}

static void *run(void *context)
{
    struct echo_engine *self = context;
    pthread_mutex_lock(&self->lock);
    while (!self->closing) {
        if (self->waiting == 0) {
            pthread_cond_wait(&self->some, &self->lock);
            continue;
        }
        struct echo_start start = self->starts[self->first];
        self->first = (self->first + 1) % self->most;
        self->waiting--;
        pthread_mutex_unlock(&self->lock);
        answer(self, &start);
        pthread_mutex_lock(&self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static enum weir_status echo_start(struct engine *engine, const struct engine_start *start, struct weir_error *error)
{
    struct echo_engine *self = echo_of(engine);
    pthread_mutex_lock(&self->lock);
    BENCH_CHECK(self->waiting < self->most);
    struct echo_start *entry = &self->starts[(self->first + self->waiting++) % self->most];
    memcpy(entry->id, start->id, sizeof entry->id);
    entry->fence = start->fence;
    self->running++;
    pthread_cond_signal(&self->some);
    pthread_mutex_unlock(&self->lock);
    (void)error;
    return WEIR_OK;
}

static void echo_recorded(struct engine *engine, const struct recorded *recorded, size_t count)
{
    struct echo_engine *self = echo_of(engine);
    (void)recorded;
    pthread_mutex_lock(&self->lock);
    self->running -= count;
    pthread_mutex_unlock(&self->lock);
}

static size_t echo_room(struct engine *engine)
{
    struct echo_engine *self = echo_of(engine);
    pthread_mutex_lock(&self->lock);
    size_t room = self->most - self->running;
    pthread_mutex_unlock(&self->lock);
    return room;
}

static size_t echo_running(struct engine *engine)
{
    return echo_of(engine)->most - echo_room(engine);
}

static enum weir_status echo_run_threads(struct engine *engine, struct weir_error *error)
{
    (void)error;
    struct echo_engine *self = echo_of(engine);
    BENCH_CHECK(pthread_create(&self->thread, NULL, run, self) == 0);
    self->threads_run = true;
    return WEIR_OK;
}

static void echo_ignore(struct engine *engine, const char *id, int64_t fence)
{
    (void)engine;
    (void)id;
    (void)fence;
}

static void echo_stop(struct engine *engine, bool interrupt)
{
    (void)engine;
    (void)interrupt;
}

static void echo_close(struct engine *engine)
{
    struct echo_engine *self = echo_of(engine);
    pthread_mutex_lock(&self->lock);
    self->closing = true;
    pthread_cond_signal(&self->some);
    pthread_mutex_unlock(&self->lock);
    if (self->threads_run) {
        (void)pthread_join(self->thread, NULL);
    }
    free(self->starts);
    free(self);
}

struct engine *echo_engine_open(size_t most)
{
    static const struct engine_operations operations = {
        .name = "echo",
        .features = ENGINE_DIES_WITH_NODE,
        .start = echo_start,
        .cancel = echo_ignore,
        .abandon = echo_ignore,
        .recorded = echo_recorded,
        .free_capacity = echo_room,
        .running = echo_running,
        .run_threads = echo_run_threads,
        .stop = echo_stop,
        .close = echo_close,
    };
    struct echo_engine *self = calloc(1, sizeof *self);
    BENCH_CHECK(self != NULL);
    self->starts = calloc(most, sizeof *self->starts);
    BENCH_CHECK(self->starts != NULL);
    self->most = most;
    self->engine.operations = &operations;
    self->engine.clock = clock_system();
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_cond_init(&self->some, NULL);
    return &self->engine;
}
