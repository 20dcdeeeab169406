/* The newest reports of progress, by execution and step, and their way to the store.
 *
 *   1. A report replaces the one of its step, unless that is of a later claim or attempt. The entry joins the list of those
 *      that are due, at its end.
 *   2. The end of an attempt frees an entry that was never given to the store. Else the entry is due once more, to remove
 *      the report there.
 *   3. A round writes the entries that are due at its beginning, at most PROGRESS_WRITE_MOST in each call of the store. So
 *      the report of a step is written at most once in a round. The store is called without the lock, with copies.
 *   4. A written end frees its entry, unless a new attempt of the step has reported meanwhile. Only the writer frees an
 *      entry that was given to the store, so an entry lives as long as a write of it.
 *
 * The store compares the fence of each report with that of the claim, so a late report of a lost claim has no effect. No
 * function here fails an attempt or waits for one.
 */
#include "dispatch/progress_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

struct report_values {
    int attempt;
    int64_t fence;
    int64_t at_us;
    int parts;
    bool is_over;
    char text[PROGRESS_TEXT_MAX + 1];
};

struct progress_entry {
    struct progress_entry *next; /* in its bucket */
    struct progress_entry *previous_due;
    struct progress_entry *next_due;
    int64_t due_since_round; /* the last round that had begun when it became due */
    char execution_id[UUID_TEXT_MAX];
    char step[STEP_ID_MAX + 1];
    struct report_values values;
    bool is_due;
    bool may_be_stored; /* a report was given to the store */
};

void progress_buffer_init(struct progress_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    (void)pthread_mutex_init(&buffer->lock, NULL);
}

void progress_buffer_close(struct progress_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    for (size_t i = 0; i < PROGRESS_BUCKETS; i++) {
        while (buffer->buckets[i] != NULL) {
            struct progress_entry *entry = buffer->buckets[i];
            buffer->buckets[i] = entry->next;
            free(entry);
        }
    }
    (void)pthread_mutex_destroy(&buffer->lock);
}

/* --- entries, under the lock --- */

/* The link to the entry of the step; *link is NULL when there is none. */
static struct progress_entry **progress_find(struct progress_buffer *buffer, const char *execution_id, const char *step)
{
    uint32_t hash = 2166136261U;
    for (const char *c = execution_id; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    }
    for (const char *c = step; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    }
    struct progress_entry **link = &buffer->buckets[hash % PROGRESS_BUCKETS];
    while (*link != NULL && (strcmp((*link)->execution_id, execution_id) != 0 || strcmp((*link)->step, step) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

/* At the end of its bucket, where `link` points. NULL without space. */
static struct progress_entry *progress_make(struct progress_buffer *buffer, struct progress_entry **link,
                                            const struct engine_progress *progress)
{
    struct progress_entry *entry = buffer->count < PROGRESS_ATTEMPTS_MAX ? calloc(1, sizeof *entry) : NULL;
    if (entry != NULL) {
        text_copy(entry->execution_id, sizeof entry->execution_id, progress->execution_id);
        text_copy(entry->step, sizeof entry->step, progress->step);
        *link = entry;
        buffer->count++;
    }
    return entry;
}

static void set_due(struct progress_buffer *buffer, struct progress_entry *entry)
{
    if (entry->is_due) {
        return;
    }
    entry->is_due = true;
    entry->due_since_round = buffer->round;
    entry->previous_due = buffer->last_due;
    entry->next_due = NULL;
    *(buffer->last_due != NULL ? &buffer->last_due->next_due : &buffer->first_due) = entry;
    buffer->last_due = entry;
}

static void clear_due(struct progress_buffer *buffer, struct progress_entry *entry)
{
    INVARIANT(entry->is_due);
    *(entry->previous_due != NULL ? &entry->previous_due->next_due : &buffer->first_due) = entry->next_due;
    *(entry->next_due != NULL ? &entry->next_due->previous_due : &buffer->last_due) = entry->previous_due;
    entry->is_due = false;
}

static void progress_free(struct progress_buffer *buffer, struct progress_entry **link)
{
    struct progress_entry *entry = *link;
    INVARIANT(entry != NULL);
    *link = entry->next;
    buffer->count--;
    free(entry);
}

/* Whether the report is of an earlier claim or attempt than the entry. */
static bool is_outdated(const struct progress_entry *entry, const struct engine_progress *progress)
{
    return progress->fence < entry->values.fence ||
           (progress->fence == entry->values.fence && progress->attempt < entry->values.attempt);
}

/* --- any thread --- */

bool progress_buffer_add(struct progress_buffer *buffer, const struct engine_progress *progress)
{
    INVARIANT(buffer != NULL && progress->text != NULL && strlen(progress->text) <= PROGRESS_TEXT_MAX);
    pthread_mutex_lock(&buffer->lock);
    bool is_first = buffer->first_due == NULL;
    struct progress_entry **link = progress_find(buffer, progress->execution_id, progress->step);
    struct progress_entry *entry = *link != NULL ? *link : progress_make(buffer, link, progress);
    if (entry != NULL && !is_outdated(entry, progress)) {
        entry->values = (struct report_values){
            .attempt = progress->attempt, .fence = progress->fence, .at_us = progress->at_us, .parts = progress->parts};
        text_copy(entry->values.text, sizeof entry->values.text, progress->text);
        set_due(buffer, entry);
    }
    is_first = is_first && buffer->first_due != NULL;
    pthread_mutex_unlock(&buffer->lock);
    return is_first;
}

bool progress_buffer_end(struct progress_buffer *buffer, const struct engine_progress *progress)
{
    INVARIANT(buffer != NULL && progress->execution_id != NULL && progress->step != NULL);
    pthread_mutex_lock(&buffer->lock);
    bool is_first = buffer->first_due == NULL;
    struct progress_entry **link = progress_find(buffer, progress->execution_id, progress->step);
    struct progress_entry *entry = *link;
    if (entry != NULL && entry->values.fence == progress->fence && entry->values.attempt == progress->attempt) {
        if (entry->may_be_stored) {
            entry->values.is_over = true;
            set_due(buffer, entry);
        } else {
            clear_due(buffer, entry);
            progress_free(buffer, link);
        }
    }
    is_first = is_first && buffer->first_due != NULL;
    pthread_mutex_unlock(&buffer->lock);
    return is_first;
}

bool progress_buffer_is_due(struct progress_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    pthread_mutex_lock(&buffer->lock);
    bool is_due = buffer->first_due != NULL;
    pthread_mutex_unlock(&buffer->lock);
    return is_due;
}

/* --- the writer --- */

/* A set of copies, and the entries that they are of. */
struct progress_set {
    size_t count;
    struct progress_entry *entries[PROGRESS_WRITE_MOST];
    struct report_values values[PROGRESS_WRITE_MOST];
};

static bool has_left(const struct progress_buffer *buffer)
{
    return buffer->first_due != NULL && buffer->first_due->due_since_round < buffer->round;
}

/* Step 3. */
static void take_set(struct progress_buffer *buffer, struct progress_set *set)
{
    buffer->round += buffer->in_round ? 0 : 1;
    for (set->count = 0; set->count < PROGRESS_WRITE_MOST && has_left(buffer); set->count++) {
        struct progress_entry *entry = buffer->first_due;
        clear_due(buffer, entry);
        entry->may_be_stored = true;
        set->entries[set->count] = entry;
        set->values[set->count] = entry->values;
    }
}

static enum weir_status write_set(const struct progress_set *set, struct store *store, struct weir_error *error)
{
    struct progress_record records[PROGRESS_WRITE_MOST];
    for (size_t i = 0; i < set->count; i++) {
        const struct report_values *values = &set->values[i];
        records[i] = (struct progress_record){.execution_id = set->entries[i]->execution_id,
                                              .step = set->entries[i]->step,
                                              .attempt = values->attempt,
                                              .fence = values->fence,
                                              .is_over = values->is_over,
                                              .at_us = values->at_us,
                                              .parts = values->parts,
                                              .text = values->text};
    }
    return store_write_progress(store, records, set->count, error);
}

/* Step 4. An entry that is due again has changed since the set was taken. */
static void settle_progress(struct progress_buffer *buffer, const struct progress_set *set, bool is_tried_again)
{
    for (size_t i = 0; i < set->count; i++) {
        struct progress_entry *entry = set->entries[i];
        if (is_tried_again) {
            set_due(buffer, entry);
        } else if (set->values[i].is_over && !entry->is_due) {
            progress_free(buffer, progress_find(buffer, entry->execution_id, entry->step));
        }
    }
}

/* Whether the same reports may be written later. */
static bool can_write_later(enum weir_status status)
{
    return status == WEIR_STORE_UNREACHABLE || status == WEIR_STORE_BUSY || status == WEIR_COMMIT_UNKNOWN;
}

enum weir_status progress_buffer_write(struct progress_buffer *buffer, struct store *store, bool *ret_more,
                                       struct weir_error *error)
{
    INVARIANT(buffer != NULL && store != NULL && ret_more != NULL);
    struct progress_set set;
    pthread_mutex_lock(&buffer->lock);
    take_set(buffer, &set);
    pthread_mutex_unlock(&buffer->lock);
    enum weir_status status = write_set(&set, store, error);
    pthread_mutex_lock(&buffer->lock);
    settle_progress(buffer, &set, can_write_later(status));
    buffer->in_round = has_left(buffer) && !can_write_later(status);
    *ret_more = buffer->in_round;
    pthread_mutex_unlock(&buffer->lock);
    return status;
}
