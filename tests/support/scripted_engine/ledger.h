/* The runs of the scripted engine: tests compare the store with this ledger.
 *
 * Its rules do not depend on the store: at most one open run per id; with `once`, at most one run of an id ever; no run
 * after a durable end; no step after its durable end; one attempt of a step at a time; attempt numbers only grow. It stores
 * the first broken rule as text. One thread.
 */
#ifndef WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_LEDGER_H
#define WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_LEDGER_H

#include "support/scripted_engine/scripted.h"

enum { LEDGER_BROKEN_MAX = 256 };

struct ledger {
    struct scripted_entry **entries; /* in the order of their first start */
    size_t count;
    size_t capacity;
    uint32_t *buckets; /* index + 1 into entries; 0 = free; open addressing, a power of two */
    size_t bucket_count;
    int runs_open;
    bool once;
    char broken[LEDGER_BROKEN_MAX];
};

void ledger_init(struct ledger *ledger, bool once);
void ledger_close(struct ledger *ledger);
/* NULL when there is none. */
struct scripted_entry *ledger_find(const struct ledger *ledger, const char *id);
/* Makes the entry if it is new. */
struct scripted_entry *ledger_enter(struct ledger *ledger, const char *id, const char *workspace);
int ledger_open_runs(const struct ledger *ledger, const char *workspace);

/* Stores the first broken rule. */
void ledger_note_broken(struct ledger *ledger, const char *id, const char *rule, int64_t detail);
void ledger_begin_run(struct ledger *ledger, struct scripted_entry *entry, int64_t fence, int64_t now_us);
/* Ends the open steps as well. */
void ledger_end_run(struct ledger *ledger, struct scripted_entry *entry, int64_t now_us);
void ledger_begin_step(struct ledger *ledger, struct scripted_entry *entry, int step, int attempt, int64_t now_us);
void ledger_end_step(struct ledger *ledger, struct scripted_entry *entry, int step, int64_t now_us);
/* The store has the step's result: it acknowledged it, or gave it back with a start. */
void ledger_step_is_durable(struct ledger *ledger, struct scripted_entry *entry, int step);
/* The store has acknowledged the park that was reported last. */
void ledger_park_is_durable(struct ledger *ledger, struct scripted_entry *entry);
/* The store has acknowledged the end that was reported under this fence. */
void ledger_end_is_durable(struct ledger *ledger, struct scripted_entry *entry, int64_t fence);

#endif
