/* The proof that no workspace passed its limit, from the records of the store alone.
 *
 * 1. Read all executions of the workspace, with the times of their claims and ends.
 * 2. Sort both lists.
 * 3. Walk over the claims in order. At each claim, first pass the ends that are not later. Store times are taken inside
 *    the transactions, so at equal times the end freed the slot before the claim took it.
 * 4. The largest difference of claims and ends is the peak of held slots.
 *
 * No counter of the queue is used, because a wrong counter is the error that the audit must find. Runs in the thread of
 * `weir demo`.
 */
#include "cli/verbs/cap_audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/output/json_fields.h"

struct records {
    int64_t *claims_us;
    int64_t *ends_us;
    int64_t *waits_us;
    size_t claim_count;
    size_t end_count;
    size_t capacity;
};

/* Grows the three arrays together, so that they keep one capacity. */
static enum weir_status reserve_records(struct records *records, size_t more, struct weir_error *error)
{
    size_t need = records->claim_count + more;
    if (need <= records->capacity) {
        return WEIR_OK;
    }
    int64_t **arrays[] = {&records->claims_us, &records->ends_us, &records->waits_us};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        int64_t *grown = realloc(*arrays[i], need * 2 * sizeof **arrays[i]);
        if (grown == NULL) {
            return error_out_of_memory(error);
        }
        *arrays[i] = grown;
    }
    records->capacity = need * 2;
    return WEIR_OK;
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

size_t cap_audit_peak(int64_t *claims_us, size_t claim_count, int64_t *ends_us, size_t end_count)
{
    size_t peak = 0;
    size_t ended = 0;
    qsort(claims_us, claim_count, sizeof *claims_us, compare_times);
    qsort(ends_us, end_count, sizeof *ends_us, compare_times);
    for (size_t claimed = 0; claimed < claim_count; claimed++) {
        while (ended < end_count && ends_us[ended] <= claims_us[claimed]) {
            ended++;
        }
        if (claimed + 1 - ended > peak) {
            peak = claimed + 1 - ended;
        }
    }
    return peak;
}

/* Counts the execution by its state. */
static void count_state(struct cap_audit *audit, const char *state)
{
    audit->executions++;
    audit->pending += strcmp(state, "PENDING") == 0;
    audit->running += strcmp(state, "CLAIMED") == 0 || strcmp(state, "DISPATCHED") == 0;
    audit->completed += strcmp(state, "COMPLETED") == 0;
    audit->failed += strcmp(state, "FAILED") == 0 || strcmp(state, "CANCELLED") == 0;
}

/* Counts one execution, and adds its times when it held a slot. */
static void add_audited_row(struct cap_audit *audit, struct records *records, const json_t *row)
{
    const char *state = json_string_value(json_object_get(row, "status"));
    int64_t claimed_us = field_time(row, "claimed_at", 0);
    int64_t finished_us = field_time(row, "finished_at", 0);
    int64_t created_us = field_time(row, "created_at", 0);
    int64_t run_at_us = field_time(row, "run_at", 0);
    count_state(audit, state == NULL ? "" : state);
    if (claimed_us == 0 || (state != NULL && strcmp(state, "PENDING") == 0)) {
        return; /* never claimed, or given back: it holds no slot */
    }
    records->waits_us[records->claim_count] = claimed_us - (run_at_us > created_us ? run_at_us : created_us);
    records->claims_us[records->claim_count] = claimed_us;
    records->claim_count++;
    if (audit->first_claim_us == 0 || claimed_us < audit->first_claim_us) {
        audit->first_claim_us = claimed_us;
    }
    if (finished_us > 0) {
        records->ends_us[records->end_count] = finished_us;
        records->end_count++;
        audit->last_end_us = finished_us > audit->last_end_us ? finished_us : audit->last_end_us;
    }
}

struct reading {
    struct cap_audit *audit;
    struct records records;
    enum weir_status status;
    struct weir_error *error;
};

static bool read_audited_row(void *context, const json_t *row)
{
    struct reading *reading = context;
    reading->status = reserve_records(&reading->records, 1, reading->error);
    if (reading->status == WEIR_OK) {
        add_audited_row(reading->audit, &reading->records, row);
    }
    return reading->status == WEIR_OK;
}

/* Reads all executions of the workspace, page by page. */
static enum weir_status read_audited_rows(struct store *store, struct reading *reading)
{
    struct list_options options = {
        .kind = LIST_EXECUTIONS, .filter = {.workspace = reading->audit->workspace}, .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_list_each(store, &options, read_audited_row, reading, reading->error);
    return status == WEIR_OK ? reading->status : status;
}

enum weir_status cap_audit_read(struct store *store, struct cap_audit *audit, struct weir_error *error)
{
    struct reading reading = {.audit = audit, .status = WEIR_OK, .error = error};
    struct records *records = &reading.records;
    *audit = (struct cap_audit){.workspace = audit->workspace};
    enum weir_status status = read_audited_rows(store, &reading);
    if (status == WEIR_OK && records->claim_count > 0) {
        audit->peak = cap_audit_peak(records->claims_us, records->claim_count, records->ends_us, records->end_count);
        qsort(records->waits_us, records->claim_count, sizeof *records->waits_us, compare_times);
        int64_t p95_us = records->waits_us[(records->claim_count * 95 - 1) / 100];
        audit->wait_p95_us = p95_us > 0 ? p95_us : 0;
    }
    free(records->claims_us);
    free(records->ends_us);
    free(records->waits_us);
    return status;
}
