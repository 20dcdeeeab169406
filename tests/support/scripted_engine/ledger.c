/* The ledger: a hash table of executions by id, with the rules that every run has to keep.
 *
 * The scripted engine reports each begin and end here. The ledger checks its rules at that moment and stores the text of
 * the first violation; the tests read it after each step. It never ends the program for a broken rule, so that a test can
 * print its seed. It does end it when the test double itself is wrong (INVARIANT). Entries are never freed before
 * ledger_close(): the ledger is the complete history of a world. One thread.
 */
#include "support/scripted_engine/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { BUCKETS_FIRST = 64 };

void ledger_note_broken(struct ledger *ledger, const char *id, const char *rule, int64_t detail)
{
    if (ledger->broken[0] == '\0') {
        (void)snprintf(ledger->broken, sizeof ledger->broken, "%s: %s (%" PRId64 ")", id, rule, detail);
    }
}

void ledger_init(struct ledger *ledger, bool once)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->once = once;
}

void ledger_close(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->count; i++) {
        free(ledger->entries[i]);
    }
    free(ledger->entries);
    free(ledger->buckets);
    memset(ledger, 0, sizeof *ledger);
}

static size_t find_bucket(const struct ledger *ledger, const char *id)
{
    size_t at = text_hash(id) & (ledger->bucket_count - 1);
    while (ledger->buckets[at] != 0 && strcmp(ledger->entries[ledger->buckets[at] - 1]->id, id) != 0) {
        at = (at + 1) & (ledger->bucket_count - 1);
    }
    return at;
}

struct scripted_entry *ledger_find(const struct ledger *ledger, const char *id)
{
    if (ledger->bucket_count == 0) {
        return NULL;
    }
    uint32_t index = ledger->buckets[find_bucket(ledger, id)];
    return index == 0 ? NULL : ledger->entries[index - 1];
}

static void grow_ledger(struct ledger *ledger)
{
    size_t capacity = ledger->capacity == 0 ? BUCKETS_FIRST / 2 : ledger->capacity * 2;
    struct scripted_entry **entries = realloc(ledger->entries, capacity * sizeof(*entries));
    uint32_t *buckets = calloc(capacity * 2, sizeof *buckets);
    INVARIANT(entries != NULL && buckets != NULL);
    free(ledger->buckets);
    ledger->entries = entries;
    ledger->buckets = buckets;
    ledger->capacity = capacity;
    ledger->bucket_count = capacity * 2;
    for (size_t i = 0; i < ledger->count; i++) {
        buckets[find_bucket(ledger, entries[i]->id)] = (uint32_t)i + 1;
    }
}

struct scripted_entry *ledger_enter(struct ledger *ledger, const char *id, const char *workspace)
{
    struct scripted_entry *entry = ledger_find(ledger, id);
    if (entry != NULL) {
        return entry;
    }
    if (ledger->count == ledger->capacity) {
        grow_ledger(ledger);
    }
    entry = calloc(1, sizeof *entry);
    INVARIANT(entry != NULL);
    text_copy(entry->id, sizeof entry->id, id);
    text_copy(entry->workspace, sizeof entry->workspace, workspace);
    entry->steps = -1;
    size_t bucket = find_bucket(ledger, id);
    ledger->entries[ledger->count++] = entry;
    ledger->buckets[bucket] = (uint32_t)ledger->count;
    return entry;
}

int ledger_open_runs(const struct ledger *ledger, const char *workspace)
{
    if (workspace == NULL) {
        return ledger->runs_open;
    }
    int open = 0;
    for (size_t i = 0; i < ledger->count; i++) {
        open += strcmp(ledger->entries[i]->workspace, workspace) == 0 ? ledger->entries[i]->runs_open : 0;
    }
    return open;
}

void ledger_begin_run(struct ledger *ledger, struct scripted_entry *entry, int64_t fence, int64_t now_us)
{
    if (entry->runs_open > 0) {
        ledger_note_broken(ledger, entry->id, "a second run began while one was open; fence", fence);
    } else if (entry->ended_durably) {
        ledger_note_broken(ledger, entry->id, "a run began after the end was on record; fence", fence);
    } else if (ledger->once && entry->runs_begun > 0) {
        ledger_note_broken(ledger, entry->id, "a second run of one id; fence", fence);
    } else if (fence <= entry->fence_begun) {
        ledger_note_broken(ledger, entry->id, "a second run under one fence, or under an older one; fence", fence);
    }
    entry->runs_begun++;
    entry->runs_open++;
    entry->fence_begun = fence;
    entry->began_while_waiting = entry->began_while_waiting || now_us < entry->waits_until_us;
    entry->ended = false;
    ledger->runs_open++;
}

void ledger_end_run(struct ledger *ledger, struct scripted_entry *entry, int64_t now_us)
{
    INVARIANT(entry->runs_open > 0);
    for (int i = 0; i < SCRIPTED_STEPS_MOST; i++) {
        if (entry->step[i].open > 0) {
            ledger_end_step(ledger, entry, i, now_us);
        }
    }
    entry->action.is_open = false;
    entry->runs_open--;
    ledger->runs_open--;
}

void ledger_begin_step(struct ledger *ledger, struct scripted_entry *entry, int step, int attempt, int64_t now_us)
{
    struct scripted_step_entry *of = &entry->step[step];
    if (of->open > 0) {
        ledger_note_broken(ledger, entry->id, "two attempts of a step at once; step", step);
    } else if (of->completed_durably) {
        ledger_note_broken(ledger, entry->id, "a finished step ran again; step", step);
    } else if (attempt <= of->attempt_last) {
        ledger_note_broken(ledger, entry->id, "an attempt number was used twice; attempt", attempt);
    } else if (step > 0 && !entry->step[step - 1].completed_durably) {
        ledger_note_broken(ledger, entry->id, "a step began before the one it needs was on record; step", step);
    }
    of->begun++;
    of->open++;
    of->attempt_last = attempt;
    of->begin_us = now_us;
}

void ledger_end_step(struct ledger *ledger, struct scripted_entry *entry, int step, int64_t now_us)
{
    (void)ledger;
    INVARIANT(entry->step[step].open > 0);
    entry->step[step].open--;
    entry->step[step].end_us = now_us;
}

void ledger_step_is_durable(struct ledger *ledger, struct scripted_entry *entry, int step)
{
    if (entry->step[step].begun == 0) {
        ledger_note_broken(ledger, entry->id, "a step is on record that never ran; step", step);
    }
    entry->step[step].completed_durably = true;
}

/* The counts of refused starts begin anew. */
void ledger_park_is_durable(struct ledger *ledger, struct scripted_entry *entry)
{
    (void)ledger;
    entry->waits_until_us = entry->parked_until_us;
    entry->refusals = 0;
}

void ledger_end_is_durable(struct ledger *ledger, struct scripted_entry *entry, int64_t fence)
{
    if (entry->ended_durably && fence != entry->durable_fence) {
        ledger_note_broken(ledger, entry->id, "two ends were accepted; the fence of the second is", fence);
    } else if (!entry->ended || (entry->end_fence != 0 && entry->end_fence != fence)) {
        ledger_note_broken(ledger, entry->id, "an end was accepted that this run did not come to; fence", fence);
    }
    entry->ended_durably = true;
    entry->durable_fence = fence;
}
