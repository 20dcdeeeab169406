/* `weir why -w WORKSPACE`: why the executions of one tenant do not run, as one answer.
 *
 * 1. The row of the workspace gives the plan, the pause and the number of slots.
 * 2. The held executions are the holders of its slots.
 * 3. The waiting executions are counted by their pending_reason; the oldest one is named.
 * 4. The failures of the last hour are counted among the executions of the last day.
 * 5. When all slots are taken, the next start is expected when the first holder ends: the median of the last runs says
 * when.
 *
 * Each walk reads at most ROWS_MOST rows and reports when there were more. Nothing here writes. One thread.
 */
#include "cli/verbs/why_workspace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "cli/output/json_fields.h"
#include "cli/verbs/store_pages.h"

enum { ROWS_MOST = 10000, RUNS_OF_MEDIAN = 21 };

#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)

/* The facts of one answer. */
struct tenant {
    const char *name;
    int64_t now_us;
    json_t *page; /* of the workspace */
    json_t *holders;
    json_t *reasons; /* {reason: number} */
    char oldest_id[UUID_TEXT_MAX];
    char oldest_at[TIME_TEXT_MAX];
    int64_t waiting;
    bool more_wait; /* ROWS_MOST rows were read, and there are others */
    int64_t failed;
    int64_t failures_read;
    int64_t runs[RUNS_OF_MEDIAN];
    size_t run_count;
};

/* --- the walks --- */

static bool count_waiting(void *context, const json_t *row)
{
    struct tenant *tenant = context;
    const char *reason = json_string_value(json_object_get(row, "pending_reason"));
    const char *id = json_string_value(json_object_get(row, "id"));
    const char *created = json_string_value(json_object_get(row, "created_at"));
    reason = reason == NULL ? "ready" : reason;
    int64_t count = field_number(tenant->reasons, reason, 0) + 1;
    (void)json_object_set_new(tenant->reasons, reason, json_integer(count));
    tenant->waiting++;
    /* Newest first: the last row is the oldest. */
    text_copy(tenant->oldest_id, sizeof tenant->oldest_id, id == NULL ? "" : id);
    text_copy(tenant->oldest_at, sizeof tenant->oldest_at, created == NULL ? "" : created);
    tenant->more_wait = tenant->waiting == ROWS_MOST;
    return !tenant->more_wait;
}

static bool count_recent_failure(void *context, const json_t *row)
{
    struct tenant *tenant = context;
    tenant->failed += field_time(row, "finished_at", tenant->now_us) >= tenant->now_us - HOUR_US;
    tenant->failures_read++;
    return tenant->failures_read < ROWS_MOST;
}

static bool add_run(void *context, const json_t *row)
{
    struct tenant *tenant = context;
    int64_t began_us = field_time(row, "claimed_at", tenant->now_us);
    int64_t ended_us = field_time(row, "finished_at", tenant->now_us);
    if (began_us > 0 && ended_us >= began_us) {
        tenant->runs[tenant->run_count++] = ended_us - began_us;
    }
    return tenant->run_count < RUNS_OF_MEDIAN;
}

static bool add_holder(void *context, const json_t *row)
{
    struct tenant *tenant = context;
    (void)json_array_append_new(
        tenant->holders, json_pack("{s:O, s:O, s:O, s:O, s:O}", "id", json_object_get(row, "id"), "status",
                                   json_object_get(row, "status"), "workflow", json_object_get(row, "workflow"), "node",
                                   json_object_get(row, "node"), "claimed_at", json_object_get(row, "claimed_at")));
    return json_array_size(tenant->holders) < ROWS_MOST;
}

static enum weir_status read_tenant(struct store *store, struct tenant *tenant, struct weir_error *error)
{
    const struct {
        unsigned states;
        int64_t age_us;
        bool (*visit)(void *context, const json_t *row);
    } walks[] = {
        {1U << ITEM_CLAIMED | 1U << ITEM_DISPATCHED, 0, add_holder},
        {1U << ITEM_PENDING, 0, count_waiting},
        {1U << ITEM_FAILED, 24 * HOUR_US, count_recent_failure},
        {1U << ITEM_COMPLETED, 24 * HOUR_US, add_run},
    };
    enum weir_status status = store_require_name(store, LIST_WORKSPACES, tenant->name, WEIR_WORKSPACE_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_WORKSPACES, tenant->name, &tenant->page, error);
    }
    if (status == WEIR_OK) {
        status = store_time(store, &tenant->now_us, error);
    }
    for (size_t i = 0; i < sizeof walks / sizeof walks[0] && status == WEIR_OK; i++) {
        struct list_options options = {.kind = LIST_EXECUTIONS,
                                       .filter = {.workspace = tenant->name, .states = walks[i].states},
                                       .limit = LIST_LIMIT_MOST};
        options.filter.created_since_us = walks[i].age_us > 0 ? tenant->now_us - walks[i].age_us : 0;
        status = store_list_each(store, &options, walks[i].visit, tenant, error);
    }
    return status;
}

/* --- the answer --- */

static int compare_run_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* When the first of the holders ends, if it takes as long as the median of the last runs. False: not to be told. */
static bool expect_next_start(struct tenant *tenant, int64_t *ret_in_us)
{
    size_t i;
    json_t *holder;
    if (tenant->run_count == 0 || field_number(tenant->reasons, "workspace_at_capacity", 0) == 0) {
        return false;
    }
    qsort(tenant->runs, tenant->run_count, sizeof tenant->runs[0], compare_run_times);
    int64_t median_us = tenant->runs[tenant->run_count / 2];
    int64_t first_us = median_us;
    json_array_foreach(tenant->holders, i, holder)
    {
        int64_t left_us = median_us - (tenant->now_us - field_time(holder, "claimed_at", tenant->now_us));
        first_us = left_us < first_us ? left_us : first_us;
    }
    *ret_in_us = first_us < 0 ? 0 : first_us;
    return true;
}

static json_t *tenant_json(struct tenant *tenant)
{
    const json_t *row = page_first(tenant->page);
    int64_t in_us = 0;
    bool is_expected = expect_next_start(tenant, &in_us);
    return json_pack("{s:s, s:O, s:O, s:O, s:O, s:I, s:b, s:O, s:o, s:o, s:I, s:b, s:o}", "workspace", tenant->name,
                     "paused", json_object_get(row, "paused"), "slots_used", json_object_get(row, "slots_used"),
                     "slots_max", json_object_get(row, "slots_max"), "slot_holders", tenant->holders, "pending",
                     (json_int_t)tenant->waiting, "pending_is_exact", !tenant->more_wait, "pending_reasons",
                     tenant->reasons, "oldest_id", tenant->waiting > 0 ? json_string(tenant->oldest_id) : json_null(),
                     "oldest_created_at", tenant->waiting > 0 ? json_string(tenant->oldest_at) : json_null(),
                     "failed_last_hour", (json_int_t)tenant->failed, "failed_is_exact", tenant->failures_read < ROWS_MOST,
                     "next_start_in_us", is_expected ? json_integer(in_us) : json_null());
}

static void print_tenant(struct output *output, const json_t *answer, int64_t now_us)
{
    char word[SHELL_WORD_MAX];
    char duration[DURATION_TEXT_MAX];
    size_t i;
    json_t *holder;
    json_t *count;
    const char *reason;
    const char *name = field_text(output, answer, "workspace");
    const char *oldest = field_text(output, answer, "oldest_id");
    output_print(output, "workspace %s%s\n", name, field_is_true(answer, "paused") ? ", paused" : "");
    output_print(output, "  slots            %s of %s used\n", field_text(output, answer, "slots_used"),
                 field_text(output, answer, "slots_max"));
    json_array_foreach(json_object_get(answer, "slot_holders"), i, holder)
    {
        output_print(output, "    slot %-3zu       %s %s %s, %s\n", i + 1, field_text(output, holder, "id"),
                     field_text(output, holder, "status"),
                     output_age(output, field_text(output, holder, "claimed_at"), now_us),
                     field_text(output, holder, "workflow"));
    }
    output_print(output, "  waiting          %s%s\n", field_text(output, answer, "pending"),
                 field_is_true(answer, "pending_is_exact") ? "" : " or more");
    json_object_foreach(json_object_get(answer, "pending_reasons"), reason, count)
    {
        output_print(output, "    %-14s %" PRId64 "\n", output_safe(output, reason), (int64_t)json_integer_value(count));
    }
    if (oldest != NULL) {
        output_print(output, "  oldest           %s, enqueued %s\n", oldest,
                     output_ago(output, field_text(output, answer, "oldest_created_at"), now_us));
    }
    output_print(output, "  failed           %s%s in the last hour\n", field_text(output, answer, "failed_last_hour"),
                 field_is_true(answer, "failed_is_exact") ? "" : " or more");
    if (field_text(output, answer, "next_start_in_us") != NULL) {
        duration_format_short(field_number(answer, "next_start_in_us", 0), duration);
        output_print(output, "  next start       expected in about %s, by the median of its last runs\n", duration);
    }
    if (field_is_true(answer, "paused")) {
        output_report(output, "now: weir workspace resume %s", shell_quote(name, word));
    } else if (oldest != NULL) {
        output_report(output, "now: weir why %s", oldest);
    }
}

enum weir_status why_workspace(struct invocation *invocation, struct store *store, const char *name,
                               struct weir_error *error)
{
    struct tenant tenant = {.name = name, .holders = json_array(), .reasons = json_object()};
    json_t *answer = NULL;
    INVARIANT(name != NULL);
    enum weir_status status =
        tenant.holders == NULL || tenant.reasons == NULL ? error_out_of_memory(error) : read_tenant(store, &tenant, error);
    if (status == WEIR_OK) {
        answer = tenant_json(&tenant);
        status = answer == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    if (status == WEIR_OK && !output_object(invocation->output, answer)) {
        print_tenant(invocation->output, answer, tenant.now_us);
    }
    json_decref(answer);
    json_decref(tenant.page);
    json_decref(tenant.holders);
    json_decref(tenant.reasons);
    return status;
}
