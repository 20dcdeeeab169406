/* A recorder for tests of an engine: stores every report, and answers with `recorded` at once or when the test calls it.
 *
 * Waits are for events, with a deadline that only a broken engine reaches.
 */
#ifndef WEIR_TESTS_SUPPORT_RECORDER_H
#define WEIR_TESTS_SUPPORT_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/engine.h"

enum { RECORDER_DEADLINE_S = 120 };

struct recorder {
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct report *first; /* in the order in which they came */
    struct report *last;
    atomic_size_t count;
    bool is_manual; /* the test answers by itself */
    bool is_silent; /* counts, keeps nothing */
    atomic_size_t ended;
    char progress[PROGRESS_TEXT_MAX + 1]; /* the text of the last report */
    bool has_ended_progress;              /* the attempt of that report is over */
};

void recorder_init(struct recorder *recorder, struct engine *engine);
void recorder_close(struct recorder *recorder);
/* Waits for the n-th (from 1) report that fits; NULL and -1 fit everything. NULL when the deadline has passed. */
const struct report *recorder_wait(struct recorder *recorder, enum report_kind kind, const char *id, const char *step,
                                   int state, size_t n);
size_t recorder_count(struct recorder *recorder, enum report_kind kind, const char *id, const char *step, int state);
/* Answers this report. */
void recorder_answer(struct recorder *recorder, const struct report *report, enum weir_status status);
/* Everything as text, for a failure. */
void recorder_print(struct recorder *recorder);

#endif
