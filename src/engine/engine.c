/* The seam between a node and its engine.
 *
 * A node calls these functions; each checks its arguments and calls the function of the same name in the engine's table of
 * operations. An operation that the engine does not have has no effect, so a node need not know the kinds of engines.
 *
 * Reports go the other way, from any thread of an engine to the sink of the node. A lock that all engines share protects
 * the sink: after engine_set_sink() has returned, no thread uses the old one, so a node can close safely.
 *
 * This file must never know a concrete engine. Any thread, except where engine.h names one. */
#include "engine/engine.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/text.h"

struct report *report_new(enum report_kind kind, const char *id, int64_t fence)
{
    INVARIANT(id != NULL && (unsigned)kind <= REPORT_SHORTAGE);
    struct report *report = pool_allocate(sizeof *report);
    if (report != NULL) {
        report->kind = kind;
        report->fence = fence;
        report->step_index = -1;
        report->step.exit_code = -1;
        text_copy(report->id, sizeof report->id, id);
    }
    return report;
}

void report_free(struct report *report)
{
    if (report != NULL) {
        step_record_close(&report->step);
        free(report->error);
        pool_free(report, sizeof *report);
    }
}

const char *engine_name(const struct engine *engine)
{
    INVARIANT(engine != NULL && engine->operations != NULL);
    return engine->operations->name;
}

bool engine_has(const struct engine *engine, enum engine_feature feature)
{
    INVARIANT(engine != NULL);
    return (engine->operations->features & (unsigned)feature) != 0;
}

/* Of all engines. A reporting thread holds it, so no thread uses a sink after engine_set_sink() has removed it. */
static pthread_rwlock_t sinks_lock = PTHREAD_RWLOCK_INITIALIZER;

/* Waits for the reports that are on their way into the old sink. */
void engine_set_sink(struct engine *engine, struct report_sink sink)
{
    INVARIANT(engine != NULL);
    (void)pthread_rwlock_wrlock(&sinks_lock);
    engine->sink = sink;
    (void)pthread_rwlock_unlock(&sinks_lock);
}

/* The arguments come from rows of the store, so a wrong one is an error and not the end of the process. */
enum weir_status engine_start(struct engine *engine, const struct engine_start *start, struct weir_error *error)
{
    if (engine == NULL || start == NULL || !uuid_is_valid(start->id) || start->definition == NULL || start->fence <= 0 ||
        start->start_number <= 0 || (start->step_count > 0 && start->steps == NULL) ||
        (start->signal_count > 0 && start->signals == NULL)) {
        return error_set(error, WEIR_MISUSE, "engine_start needs an id, a definition, a fence and an attempt");
    }
    return engine->operations->start(engine, start, error);
}

/* The fence keeps an order for an old claim away from a newer run of the same execution. */
void engine_cancel(struct engine *engine, const char *id, int64_t fence)
{
    INVARIANT(engine != NULL && id != NULL);
    engine->operations->cancel(engine, id, fence);
}

void engine_signal(struct engine *engine, const char *id, int64_t fence, const struct signal_record *signal)
{
    INVARIANT(engine != NULL && id != NULL && signal != NULL && signal->data != NULL);
    if (engine->operations->signal != NULL) {
        engine->operations->signal(engine, id, fence, signal);
    }
}

void engine_abandon(struct engine *engine, const char *id, int64_t fence)
{
    INVARIANT(engine != NULL);
    engine->operations->abandon(engine, id, fence);
}

void engine_recorded(struct engine *engine, const struct recorded *recorded, size_t count)
{
    INVARIANT(engine != NULL && (count == 0 || recorded != NULL));
    if (engine->operations->recorded != NULL && count > 0) {
        engine->operations->recorded(engine, recorded, count);
    }
}

void engine_want_slots(struct engine *engine, const char *workspace, bool wanted)
{
    INVARIANT(engine != NULL && workspace != NULL);
    if (engine->operations->want_slots != NULL) {
        engine->operations->want_slots(engine, workspace, wanted);
    }
}

static enum weir_status refuse_handlers(const struct engine *engine, struct weir_error *error)
{
    return error_set(error, WEIR_MISUSE, "a node on the engine %s has no handlers", engine_name(engine));
}

enum weir_status engine_add_handler(struct engine *engine, const struct weir_handler *handler, struct weir_error *error)
{
    INVARIANT(engine != NULL && handler != NULL);
    return engine->operations->add_handler == NULL ? refuse_handlers(engine, error)
                                                   : engine->operations->add_handler(engine, handler, error);
}

enum weir_status engine_remove_handler(struct engine *engine, const char *name, struct weir_error *error)
{
    INVARIANT(engine != NULL && name != NULL);
    return engine->operations->remove_handler == NULL ? refuse_handlers(engine, error)
                                                      : engine->operations->remove_handler(engine, name, error);
}

/* Engines with handlers have the next two operations. */
enum weir_status engine_call(struct engine *engine, const struct engine_call *call, struct weir_error *error)
{
    INVARIANT(engine != NULL && call != NULL && call->owner != NULL && call->handler != NULL && call->input != NULL);
    return engine->operations->call == NULL ? refuse_handlers(engine, error)
                                            : engine->operations->call(engine, call, error);
}

void engine_cancel_call(struct engine *engine, void *owner, bool moves)
{
    INVARIANT(engine != NULL && owner != NULL);
    if (engine->operations->cancel_call != NULL) {
        engine->operations->cancel_call(engine, owner, moves);
    }
}

/* Every engine has the next two operations. */
size_t engine_free_capacity(struct engine *engine)
{
    INVARIANT(engine != NULL);
    size_t free_capacity = engine->operations->free_capacity(engine);
    if (atomic_load(&engine->is_bounded)) {
        size_t most = atomic_load(&engine->running_most);
        size_t running = engine->operations->running(engine);
        size_t left = most > running ? most - running : 0;
        free_capacity = left < free_capacity ? left : free_capacity;
    }
    return free_capacity;
}

void engine_bound(struct engine *engine, size_t running_most)
{
    INVARIANT(engine != NULL);
    atomic_store(&engine->running_most, running_most);
    atomic_store(&engine->is_bounded, true);
}

size_t engine_running(struct engine *engine)
{
    INVARIANT(engine != NULL);
    return engine->operations->running(engine);
}

void engine_lease(struct engine *engine, int64_t lease_end_boot_us)
{
    INVARIANT(engine != NULL);
    if (engine->operations->lease != NULL) {
        engine->operations->lease(engine, lease_end_boot_us);
    }
}

/* 0: the engine has no process of its own. */
long engine_keeper_pid(const struct engine *engine)
{
    INVARIANT(engine != NULL);
    return engine->operations->keeper_pid != NULL ? engine->operations->keeper_pid(engine) : 0;
}

/* Without the operation the engine runs executions inside of the node, so its target never changes. */
bool engine_target(struct engine *engine, struct engine_target *ret_target)
{
    INVARIANT(engine != NULL && ret_target != NULL);
    if (engine->operations->target != NULL) {
        return engine->operations->target(engine, ret_target);
    }
    *ret_target = (struct engine_target){.engine = ""};
    text_copy(ret_target->engine, sizeof ret_target->engine, engine->operations->name);
    return true;
}

int64_t engine_step(struct engine *engine)
{
    INVARIANT(engine != NULL);
    return engine->operations->step != NULL ? engine->operations->step(engine) : TIME_NEVER;
}

int engine_fd(struct engine *engine)
{
    INVARIANT(engine != NULL);
    return engine->operations->fd != NULL ? engine->operations->fd(engine) : -1;
}

enum weir_status engine_run_threads(struct engine *engine, struct weir_error *error)
{
    INVARIANT(engine != NULL);
    return engine->operations->run_threads != NULL ? engine->operations->run_threads(engine, error) : WEIR_OK;
}

void engine_stop(struct engine *engine, bool interrupt)
{
    INVARIANT(engine != NULL);
    engine->operations->stop(engine, interrupt);
}

void engine_close(struct engine *engine)
{
    if (engine != NULL) {
        engine->operations->close(engine);
    }
}

/* The sink takes the report; without a sink it is freed. */
void engine_output(struct engine *engine, const struct engine_output *output)
{
    INVARIANT(engine != NULL && output != NULL && output->execution_id != NULL && output->step != NULL);
    (void)pthread_rwlock_rdlock(&sinks_lock);
    if (engine->sink.output != NULL) {
        engine->sink.output(engine->sink.context, output);
    }
    (void)pthread_rwlock_unlock(&sinks_lock);
}

void engine_report_progress(struct engine *engine, const struct engine_progress *progress)
{
    INVARIANT(engine != NULL && progress != NULL && progress->execution_id != NULL && progress->step != NULL);
    (void)pthread_rwlock_rdlock(&sinks_lock);
    if (engine->sink.progress != NULL) {
        engine->sink.progress(engine->sink.context, progress);
    }
    (void)pthread_rwlock_unlock(&sinks_lock);
}

void engine_report(struct engine *engine, struct report *report)
{
    INVARIANT(engine != NULL && report != NULL);
    (void)pthread_rwlock_rdlock(&sinks_lock);
    if (engine->sink.report != NULL) {
        engine->sink.report(engine->sink.context, report);
    } else {
        report_free(report);
    }
    (void)pthread_rwlock_unlock(&sinks_lock);
}

/* Without a sink the caller of engine_call() has gone, and the result with it: its program learns that, outside of the
 * lock, because the function is the program's own. */
void engine_end_call(struct engine *engine, const struct engine_called *called)
{
    INVARIANT(engine != NULL && called != NULL && called->owner != NULL);
    (void)pthread_rwlock_rdlock(&sinks_lock);
    if (engine->sink.called != NULL) {
        engine->sink.called(engine->sink.context, called);
    }
    bool is_lost = engine->sink.called == NULL && called->on_recorded != NULL;
    (void)pthread_rwlock_unlock(&sinks_lock);
    if (is_lost) {
        called->on_recorded(called->recorded_context, false);
    }
}

void engine_note_lost_report(struct engine *engine)
{
    INVARIANT(engine != NULL);
    atomic_store(&engine->has_lost_report, true);
}

/* The load comes first: this runs at each turn of the node, and a lost report is rare. */
bool engine_take_lost_report(struct engine *engine)
{
    INVARIANT(engine != NULL);
    return atomic_load(&engine->has_lost_report) && atomic_exchange(&engine->has_lost_report, false);
}
