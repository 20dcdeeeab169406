/* The verb `record`: it bounds the texts of errors and isolates a record that the database refuses.
 *
 * 1. Check the set: its size, its kinds, and that a step record has a step. These are errors of the calling program.
 * 2. Cut each error text to ERROR_TEXT_MAX bytes, at a boundary between characters. The copies stand in for the records, so
 * that the caller's records keep the whole text.
 * 3. Give the set to the driver as one transaction: one commit for many reports is the reason why sets exist.
 * 4. If the database refuses a value or a row, split the set and repeat both halves. After log2(n) splits the bad record is
 * alone and has its own outcome; all other records are written. WEIR_INVALID_ARGUMENT: a value, as a NUL in a text on
 * PostgreSQL. WEIR_FAILED: a row, by a constraint or a trigger.
 * 5. A later record of a refused item gets that outcome unseen: records of an item keep their order.
 * 6. If more than REFUSED_MOST rows are refused, the cause lies in no row, and the call fails.
 *
 * A failure of any other kind ends the call, and the caller repeats the whole set. Parts of a split set that were written
 * before stay written: a repeated record changes nothing. Runs in the record thread of a node, in its dispatch thread for
 * items that it gives back, or in the thread of a program that calls store_complete().
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/call.h"

enum { REFUSED_MOST = 8 };

/* A set that is split, and the items of it that the database has refused. */
struct splitting {
    struct store *store;
    int64_t node_id;
    struct record_summary *summary;
    const char *refused[REFUSED_MOST];
};

static bool was_item_refused(const struct splitting *splitting, const struct record *record)
{
    size_t i = 0;
    while (i < splitting->summary->refused && strcmp(splitting->refused[i], record->id) != 0) {
        i++;
    }
    return i < splitting->summary->refused;
}

static bool has_refused(const struct splitting *splitting, const struct record *records, size_t count)
{
    size_t i = 0;
    while (i < count && !was_item_refused(splitting, &records[i])) {
        i++;
    }
    return i < count;
}

static enum weir_status write_part(const struct splitting *splitting, struct record *records, size_t count,
                                   struct weir_error *error)
{
    struct record_summary part = {0};
    struct record_summary *summary = splitting->summary;
    enum weir_status status =
        splitting->store->driver->record(splitting->store, splitting->node_id, records, count, &part, error);
    if (status == WEIR_OK) {
        summary->changed += part.changed;
        summary->slots_freed += part.slots_freed;
        summary->poisoned += part.poisoned;
        summary->work_waits = summary->work_waits || part.work_waits;
    }
    return status;
}

/* The record is alone. */
static enum weir_status refuse_record(struct splitting *splitting, struct record *record, enum weir_status status,
                                      const struct weir_error *error)
{
    struct record_summary *summary = splitting->summary;
    if (status == WEIR_FAILED && summary->refused == REFUSED_MOST) {
        return status;
    }
    if (status == WEIR_FAILED) {
        if (summary->refused == 0) {
            text_copy(summary->refusal, sizeof summary->refusal, error->message);
        }
        splitting->refused[summary->refused++] = record->id;
    }
    record->status = status;
    return WEIR_OK;
}

/* A set that fails for a reason that lies in one of its records is split until the bad record is alone. */
static enum weir_status record_split(struct splitting *splitting, struct record *records, size_t count,
                                     struct weir_error *error)
{
    bool is_part = has_refused(splitting, records, count);
    if (is_part && count == 1) {
        records[0].status = WEIR_FAILED;
        return WEIR_OK;
    }
    enum weir_status status = is_part ? WEIR_FAILED : write_part(splitting, records, count, error);
    if (status != WEIR_INVALID_ARGUMENT && status != WEIR_FAILED) {
        return status;
    }
    if (count == 1) {
        return refuse_record(splitting, &records[0], status, error);
    }
    status = record_split(splitting, records, count / 2, error);
    return status == WEIR_OK ? record_split(splitting, records + count / 2, count - count / 2, error) : status;
}

/* The stored text of an error is bounded: at most ERROR_TEXT_MAX bytes, cut between two characters. */
static bool is_too_long(const char *error)
{
    return error != NULL && strnlen(error, ERROR_TEXT_MAX + 1) > ERROR_TEXT_MAX;
}

/* A copy of the text, cut at a boundary between characters. */
static char *cut_error(const char *error)
{
    size_t length = ERROR_TEXT_MAX;
    while (length > 0 && ((unsigned char)error[length] & 0xC0) == 0x80) {
        length--;
    }
    return strndup(error, length);
}

/* The copies that stand in for records with long errors, while the driver works. */
struct shortened {
    struct record *records;
    struct step_record *steps;
    char **texts;
    size_t text_count;
};

static void shortened_close(struct shortened *shortened)
{
    for (size_t i = 0; i < shortened->text_count; i++) {
        free(shortened->texts[i]);
    }
    free(shortened->texts);
    free(shortened->steps);
    free(shortened->records);
}

/* Copies the records, with texts that are cut where they are too long. */
static bool shorten(struct shortened *shortened, const struct record *records, size_t count)
{
    shortened->records = calloc(count, sizeof *shortened->records);
    shortened->steps = calloc(count, sizeof *shortened->steps);
    shortened->texts = calloc(2 * count, sizeof *shortened->texts);
    bool fine = shortened->records != NULL && shortened->steps != NULL && shortened->texts != NULL;
    for (size_t i = 0; i < count && fine; i++) {
        struct record *record = &shortened->records[i];
        *record = records[i];
        if (is_too_long(record->error)) {
            record->error = shortened->texts[shortened->text_count++] = cut_error(record->error);
            fine = record->error != NULL;
        }
        if (fine && record->step != NULL && is_too_long(record->step->error)) {
            shortened->steps[i] = *record->step;
            shortened->steps[i].error = shortened->texts[shortened->text_count++] = cut_error(record->step->error);
            record->step = &shortened->steps[i];
            fine = record->step->error != NULL;
        }
    }
    return fine;
}

/* Records as they are, or with their errors cut. */
static enum weir_status record_bounded(struct store *store, int64_t node_id, struct record *records, size_t count,
                                       struct record_summary *summary, struct weir_error *error)
{
    bool too_long = false;
    for (size_t i = 0; i < count; i++) {
        too_long =
            too_long || is_too_long(records[i].error) || (records[i].step != NULL && is_too_long(records[i].step->error));
    }
    struct splitting splitting = {.store = store, .node_id = node_id, .summary = summary};
    if (!too_long) {
        return record_split(&splitting, records, count, error);
    }
    struct shortened shortened = {0};
    enum weir_status status = shorten(&shortened, records, count)
                                  ? record_split(&splitting, shortened.records, count, error)
                                  : error_out_of_memory(error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        records[i].status = shortened.records[i].status;
    }
    shortened_close(&shortened);
    return status;
}

enum weir_status store_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                              struct record_summary *ret_summary, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_summary != NULL);
    if (count > RECORD_BATCH_MOST || (count > 0 && records == NULL)) {
        return error_set(error, WEIR_MISUSE, "a set has at most %d records", RECORD_BATCH_MOST);
    }
    for (size_t i = 0; i < count; i++) {
        if ((records[i].kind == RECORD_STEP && records[i].step == NULL) || (unsigned)records[i].kind >= RECORD_KIND_COUNT) {
            return error_set(error, WEIR_MISUSE, "record %zu is not whole", i);
        }
    }
    struct call call = call_begin(store, "record", error);
    struct record_summary summary = {0};
    enum weir_status status = count == 0 ? WEIR_OK : record_bounded(store, node_id, records, count, &summary, &call.own);
    if (status == WEIR_OK) {
        *ret_summary = summary;
        call_emit_poisoned(&call, summary.poisoned);
    }
    return call_end(&call, status);
}
