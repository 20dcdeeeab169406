#include "cli/cap_audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

struct records {
    int64_t *claims_us;
    int64_t *ends_us;
    int64_t *waits_us;
    size_t claim_count;
    size_t end_count;
    size_t capacity;
};

static enum weir_status make_room(struct records *records, size_t more, struct weir_error *error)
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

size_t proof_peak(int64_t *claims_us, size_t claim_count, int64_t *ends_us, size_t end_count)
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

/* The time in a column of the view; 0 when it is null. */
static int64_t time_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    int64_t time_us = 0;
    return text != NULL && time_parse(text, 0, &time_us, NULL) == WEIR_OK ? time_us : 0;
}

static void count_state(struct proof *proof, const char *state)
{
    proof->executions++;
    proof->pending += strcmp(state, "PENDING") == 0;
    proof->running += strcmp(state, "CLAIMED") == 0 || strcmp(state, "DISPATCHED") == 0;
    proof->completed += strcmp(state, "COMPLETED") == 0;
    proof->failed += strcmp(state, "FAILED") == 0 || strcmp(state, "CANCELLED") == 0;
}

static void add_row(struct proof *proof, struct records *records, const json_t *row)
{
    const char *state = json_string_value(json_object_get(row, "status"));
    int64_t claimed_us = time_of(row, "claimed_at");
    int64_t finished_us = time_of(row, "finished_at");
    int64_t created_us = time_of(row, "created_at");
    int64_t run_at_us = time_of(row, "run_at");
    count_state(proof, state == NULL ? "" : state);
    if (claimed_us == 0 || (state != NULL && strcmp(state, "PENDING") == 0)) {
        return; /* never claimed, or given back: it holds no slot */
    }
    records->waits_us[records->claim_count] = claimed_us - (run_at_us > created_us ? run_at_us : created_us);
    records->claims_us[records->claim_count] = claimed_us;
    records->claim_count++;
    if (proof->first_claim_us == 0 || claimed_us < proof->first_claim_us) {
        proof->first_claim_us = claimed_us;
    }
    if (finished_us > 0) {
        records->ends_us[records->end_count] = finished_us;
        records->end_count++;
        proof->last_end_us = finished_us > proof->last_end_us ? finished_us : proof->last_end_us;
    }
}

struct reading {
    struct proof *proof;
    struct records records;
    enum weir_status status;
    struct weir_error *error;
};

static bool read_row(void *context, const json_t *row)
{
    struct reading *reading = context;
    reading->status = make_room(&reading->records, 1, reading->error);
    if (reading->status == WEIR_OK) {
        add_row(reading->proof, &reading->records, row);
    }
    return reading->status == WEIR_OK;
}

static enum weir_status read_rows(struct store *store, struct reading *reading)
{
    struct list_options options = {
        .kind = LIST_EXECUTIONS, .filter = {.workspace = reading->proof->workspace}, .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_list_each(store, &options, read_row, reading, reading->error);
    return status == WEIR_OK ? reading->status : status;
}

enum weir_status proof_read(struct store *store, struct proof *proof, struct weir_error *error)
{
    struct reading reading = {.proof = proof, .status = WEIR_OK, .error = error};
    struct records *records = &reading.records;
    *proof = (struct proof){.workspace = proof->workspace};
    enum weir_status status = read_rows(store, &reading);
    if (status == WEIR_OK && records->claim_count > 0) {
        proof->peak = proof_peak(records->claims_us, records->claim_count, records->ends_us, records->end_count);
        qsort(records->waits_us, records->claim_count, sizeof *records->waits_us, compare_times);
        int64_t p95_us = records->waits_us[(records->claim_count * 95 - 1) / 100];
        proof->wait_p95_us = p95_us > 0 ? p95_us : 0;
    }
    free(records->claims_us);
    free(records->ends_us);
    free(records->waits_us);
    return status;
}
