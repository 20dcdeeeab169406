/* The history: buckets, sums, and bytes.
 *
 * The bytes of a point:
 *
 *   version (1 byte), starts, completed, failed, cancelled
 *   for each phase:      first bucket with a start, number of buckets, their counts
 *   number of workspaces
 *   for each workspace:  2 * distance to the id before + whether a limit follows, limit, slots in use, class of `pending`
 * (1 byte)
 *
 * Numbers have 7 bits in each byte, the lowest first, and a set eighth bit says that more follow. A limit follows where it
 * differs from that of the workspace before. So a small workspace takes 3 or 4 bytes.
 */
#include "queue/history.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"

enum {
    FORMAT_VERSION = 1,
    FIRST_BOUND_US = 1000,
    EXACT_MOST = 127,     /* the largest value of `pending` that is kept as it is */
    CLASSES_OF_POWER = 8, /* for each doubling above it */
    FIRST_POWER = 7,
    CLASSES_MOST = 255
};

/* --- buckets --- */

/* The largest wait of a bucket. Every second bound is a power of two in milliseconds. */
static int64_t bucket_bound(size_t bucket)
{
    int64_t power = (int64_t)FIRST_BOUND_US << (bucket / 2);
    return bucket % 2 == 0 ? power : power * 1414 / 1000;
}

size_t history_bucket(int64_t wait_us)
{
    size_t bucket = 0;
    while (bucket < HISTORY_BUCKETS - 1 && wait_us > bucket_bound(bucket)) {
        bucket++;
    }
    return bucket;
}

int64_t history_percentile(const uint32_t waits[HISTORY_BUCKETS], int permille)
{
    INVARIANT(waits != NULL && permille > 0 && permille <= 1000);
    int64_t total = 0;
    for (size_t i = 0; i < HISTORY_BUCKETS; i++) {
        total += waits[i];
    }
    int64_t rank = (total * permille + 999) / 1000; /* from 1 on */
    for (size_t i = 0; i < HISTORY_BUCKETS && total > 0; i++) {
        if (rank <= waits[i]) {
            int64_t low_us = i == 0 ? 0 : bucket_bound(i - 1);
            return low_us + (bucket_bound(i) - low_us) * rank / waits[i];
        }
        rank -= waits[i];
    }
    return -1;
}

/* --- sums --- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static uint32_t sum_of_counts(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* Both lists are in the order of the ids. */
static bool merge_workspaces(struct history_point *into, const struct history_point *later, struct arena *arena)
{
    size_t room = into->workspace_count + later->workspace_count;
    struct history_workspace *merged = arena_allocate(arena, (room + 1) * sizeof *merged);
    size_t count = 0;
    size_t a = 0;
    size_t b = 0;
    if (merged == NULL) {
        return false;
    }
    while ((a < into->workspace_count || b < later->workspace_count) && count < HISTORY_WORKSPACES_MOST) {
        const struct history_workspace *one = a < into->workspace_count ? &into->workspaces[a] : NULL;
        const struct history_workspace *other = b < later->workspace_count ? &later->workspaces[b] : NULL;
        bool has_one = one != NULL && (other == NULL || one->id <= other->id);
        bool has_other = other != NULL && (one == NULL || other->id <= one->id);
        const struct history_workspace *newest = has_other ? other : one; /* the limit is the later one */
        struct history_workspace *workspace = &merged[count++];
        INVARIANT(newest != NULL);
        *workspace = *newest;
        if (has_one && has_other) {
            workspace->slots_used = larger(one->slots_used, other->slots_used);
            workspace->pending = larger(one->pending, other->pending);
        }
        a += has_one ? 1 : 0;
        b += has_other ? 1 : 0;
    }
    into->workspaces = merged;
    into->workspace_count = count;
    return true;
}

bool history_merge(struct history_point *into, const struct history_point *later, struct arena *arena)
{
    INVARIANT(into != NULL && later != NULL && arena != NULL);
    if (!merge_workspaces(into, later, arena)) {
        return false;
    }
    into->at_us = later->at_us;
    into->span_us += later->span_us;
    into->starts += later->starts;
    into->completed += later->completed;
    into->failed += later->failed;
    into->cancelled += later->cancelled;
    into->slots_used = larger(into->slots_used, later->slots_used);
    into->pending = larger(into->pending, later->pending);
    for (size_t phase = 0; phase < HISTORY_PHASES; phase++) {
        for (size_t i = 0; i < HISTORY_BUCKETS; i++) {
            into->waits[phase][i] = sum_of_counts(into->waits[phase][i], later->waits[phase][i]);
        }
    }
    return true;
}

/* --- bytes --- */

static enum weir_status add_fact_byte(struct text *to, unsigned value)
{
    char byte = (char)(unsigned char)value;
    return text_add(to, &byte, 1);
}

static enum weir_status add_fact_number(struct text *to, int64_t value)
{
    enum weir_status status = WEIR_OK;
    uint64_t rest = value < 0 ? 0 : (uint64_t)value;
    while (rest > 0x7f && status == WEIR_OK) {
        status = add_fact_byte(to, (unsigned)(rest & 0x7f) | 0x80);
        rest >>= 7;
    }
    return status == WEIR_OK ? add_fact_byte(to, (unsigned)rest) : status;
}

static unsigned class_of(int64_t pending)
{
    unsigned power = FIRST_POWER;
    if (pending <= EXACT_MOST) {
        return pending < 0 ? 0 : (unsigned)pending;
    }
    while (power < 62 && pending >> (power + 1) > 0) {
        power++;
    }
    unsigned class = EXACT_MOST + 1 + (power - FIRST_POWER) * CLASSES_OF_POWER + (unsigned)((pending >> (power - 3)) & 7);
    return class < CLASSES_MOST ? class : CLASSES_MOST;
}

/* The least value of the class. */
static int64_t pending_of(unsigned class)
{
    unsigned above = class - EXACT_MOST - 1;
    return class <= EXACT_MOST
               ? (int64_t) class
               : (int64_t)(CLASSES_OF_POWER + above % CLASSES_OF_POWER) << (FIRST_POWER + above / CLASSES_OF_POWER - 3);
}

/* From the first bucket with a start to the last. */
static enum weir_status encode_waits(const uint32_t waits[HISTORY_BUCKETS], struct text *to)
{
    size_t first = 0;
    size_t end = HISTORY_BUCKETS;
    while (first < HISTORY_BUCKETS && waits[first] == 0) {
        first++;
    }
    while (end > first && waits[end - 1] == 0) {
        end--;
    }
    enum weir_status status = add_fact_number(to, (int64_t)first);
    status = status == WEIR_OK ? add_fact_number(to, (int64_t)(end - first)) : status;
    for (size_t i = first; i < end && status == WEIR_OK; i++) {
        status = add_fact_number(to, waits[i]);
    }
    return status;
}

static enum weir_status encode_workspaces(const struct history_point *point, struct text *to)
{
    int64_t id = 0;
    int64_t limit = 0;
    enum weir_status status = add_fact_number(to, (int64_t)point->workspace_count);
    for (size_t i = 0; i < point->workspace_count && status == WEIR_OK; i++) {
        const struct history_workspace *workspace = &point->workspaces[i];
        INVARIANT(workspace->id > id);
        bool has_limit = workspace->slots_max != limit;
        status = add_fact_number(to, 2 * (workspace->id - id) + (has_limit ? 1 : 0));
        status = status == WEIR_OK && has_limit ? add_fact_number(to, workspace->slots_max) : status;
        status = status == WEIR_OK ? add_fact_number(to, workspace->slots_used) : status;
        status = status == WEIR_OK ? add_fact_byte(to, class_of(workspace->pending)) : status;
        id = workspace->id;
        limit = workspace->slots_max;
    }
    return status;
}

enum weir_status history_encode(const struct history_point *point, struct text *to)
{
    INVARIANT(point != NULL && to != NULL && point->workspace_count <= HISTORY_WORKSPACES_MOST);
    const int64_t counts[] = {FORMAT_VERSION,   point->starts,     point->completed, point->failed,
                              point->cancelled, point->slots_used, point->pending};
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && status == WEIR_OK; i++) {
        status = add_fact_number(to, counts[i]);
    }
    for (size_t phase = 0; phase < HISTORY_PHASES && status == WEIR_OK; phase++) {
        status = encode_waits(point->waits[phase], to);
    }
    return status == WEIR_OK ? encode_workspaces(point, to) : status;
}

struct facts_reader {
    const unsigned char *at;
    const unsigned char *end;
    bool is_bad;
};

static unsigned take_fact_byte(struct facts_reader *reader)
{
    if (reader->at == reader->end) {
        reader->is_bad = true;
        return 0;
    }
    return *reader->at++;
}

/* A value above `most` is damage. */
static int64_t take_fact_number(struct facts_reader *reader, int64_t most)
{
    uint64_t value = 0;
    unsigned byte = 0x80;
    for (unsigned shift = 0; (byte & 0x80) != 0 && shift < 63; shift += 7) {
        byte = take_fact_byte(reader);
        value |= (uint64_t)(byte & 0x7f) << shift;
    }
    reader->is_bad = reader->is_bad || (byte & 0x80) != 0 || value > (uint64_t)most;
    return reader->is_bad ? 0 : (int64_t)value;
}

static void decode_waits(struct facts_reader *reader, uint32_t waits[HISTORY_BUCKETS])
{
    size_t first = (size_t)take_fact_number(reader, HISTORY_BUCKETS);
    size_t count = (size_t)take_fact_number(reader, (int64_t)(HISTORY_BUCKETS - first));
    for (size_t i = first; i < first + count; i++) {
        waits[i] = (uint32_t)take_fact_number(reader, UINT32_MAX);
    }
}

static void decode_workspace(struct facts_reader *reader, struct history_workspace *workspace,
                             const struct history_workspace *before)
{
    int64_t head = take_fact_number(reader, INT64_MAX / 4);
    workspace->id = head / 2 + before->id;
    workspace->slots_max = head % 2 != 0 ? take_fact_number(reader, INT32_MAX) : before->slots_max;
    workspace->slots_used = take_fact_number(reader, INT32_MAX);
    workspace->pending = pending_of(take_fact_byte(reader));
    reader->is_bad = reader->is_bad || workspace->id <= before->id || workspace->id > INT32_MAX;
}

bool history_decode(const char *facts, size_t length, struct arena *arena, struct history_point *point)
{
    INVARIANT(facts != NULL && arena != NULL && point != NULL);
    struct facts_reader reader = {.at = (const unsigned char *)facts, .end = (const unsigned char *)facts + length};
    struct history_workspace none = {.id = 0};
    struct history_point read = {.at_us = point->at_us, .span_us = point->span_us};
    if (take_fact_byte(&reader) != FORMAT_VERSION) {
        return false;
    }
    read.starts = take_fact_number(&reader, INT64_MAX);
    read.completed = take_fact_number(&reader, INT64_MAX);
    read.failed = take_fact_number(&reader, INT64_MAX);
    read.cancelled = take_fact_number(&reader, INT64_MAX);
    read.slots_used = take_fact_number(&reader, INT64_MAX);
    read.pending = take_fact_number(&reader, INT64_MAX);
    for (size_t phase = 0; phase < HISTORY_PHASES; phase++) {
        decode_waits(&reader, read.waits[phase]);
    }
    size_t count = (size_t)take_fact_number(&reader, HISTORY_WORKSPACES_MOST);
    read.workspaces = arena_allocate(arena, (count + 1) * sizeof *read.workspaces);
    if (reader.is_bad || read.workspaces == NULL) {
        return false;
    }
    for (size_t i = 0; i < count && !reader.is_bad; i++) {
        decode_workspace(&reader, &read.workspaces[i], i == 0 ? &none : &read.workspaces[i - 1]);
    }
    read.workspace_count = count;
    if (reader.is_bad || reader.at != reader.end) {
        return false;
    }
    *point = read;
    return true;
}
