/* Records: the reports of engines, written as a set (functions/record.sql).
 *
 * 1. Order. The records are sorted by id, then in the order of the caller. One round writes the kinds in the order of an
 *    item's life: dispatched, steps, ends. A record that comes too late for that goes to the next round of the same
 *    transaction. So each record has the outcome that it would have alone, after those before it. Sorted ids also mean
 *    that the server locks rows in one order everywhere, so two sets never wait for each other.
 * 2. Carriers. One write includes all that it can: DISPATCHED and the steps of an item that ends in the same round go
 *    with its end. Of several states of one step only the last one is written. Such a record gets the outcome of the
 *    record that carries it.
 * 3. Arrays. A round goes to the server as arrays, one statement for all its records. The finished step of an end has the
 *    place of the end in the arrays: the server stores it in the history row, which saves a row of its own. A set with
 *    more to store than its rows (a claim that ended, an earlier attempt) goes to record_events().
 * 4. Locks. The server waits 200 ms for an item that another transaction has locked, and then refuses the whole set.
 * 5. Blocked records. The set is sent again without such items: in one transaction held_by_others() finds them and locks
 * the rest, and the rounds follow. Blocked records get WEIR_STORE_BUSY; the node sends them again. For some seconds every
 *    set begins with this step, because a transaction that is open for long will not end soon.
 *
 * Each record is conditional on its fence, so a set may be sent twice: the second time its records are `repeated`. This
 * file never reports a record as written before its commit. It runs in the record thread, with a handle of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum { SET_BYTES_MAX = 256 * 1024 * 1024 };
enum stage { STAGE_DISPATCH, STAGE_STEP, STAGE_END };

/* Far beyond any life, and far from the end of bigint. */
#define DELAY_MOST_US ((int64_t)1 << 60)
/* For this time after a blocked record, sets leave blocked items out at once, without waiting for them first. */
#define SKIP_BLOCKED_US (5 * MICROSECONDS_PER_SECOND)

/* One record and its part in the work. */
struct entry {
    struct record *record;
    size_t index; /* in the caller's array */
    size_t round;
    struct entry *carrier;      /* the record that is written with this one in it; NULL = it has a write of its own */
    const struct record *start; /* of an end: the DISPATCHED that it includes, or NULL */
    bool writes_step;           /* of the records of its step, this one is written */
    bool ends_with_it;          /* the step is stored in the history row, with the end */
    bool is_blocked;            /* another transaction has locked its item: it is left out */
    int place;                  /* in the arrays of its round, from 1 */
};

struct set {
    struct arena arena;
    const struct store *store;
    int64_t node_id;
    struct record *records;
    size_t count;
    struct entry *entries; /* sorted by id, then as they came */
    size_t entry_count;
    size_t rounds;
    bool any_blocked;
    struct record_summary summary;
};

/* --- steps 1 and 2: rounds and carriers --- */

static enum stage stage_of(enum record_kind kind)
{
    return kind == RECORD_DISPATCHED ? STAGE_DISPATCH : kind == RECORD_STEP ? STAGE_STEP : STAGE_END;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int order = strcmp(x->record->id, y->record->id);
    return order != 0 ? order : x->index < y->index ? -1 : 1;
}

/* The stages of a round are dispatched, steps, ends. Only steps may follow each other. */
static bool may_follow_in_round(const struct entry *before, const struct entry *entry)
{
    enum stage stage = stage_of(entry->record->kind);
    enum stage last = stage_of(before->record->kind);
    return before->record->fence == entry->record->fence && (stage > last || (stage == STAGE_STEP && last == STAGE_STEP));
}

/* The ends that are legal in any state of a held item, so that they may include a dispatch. */
static bool is_carrier_kind(enum record_kind kind)
{
    return kind == RECORD_COMPLETED || kind == RECORD_FAILED || kind == RECORD_CANCELLED;
}

/* A park is legal in any state of a held item if it comes with the start: then it carries the records before it, too. */
static bool is_carrier(const struct entry *first, const struct entry *last)
{
    const struct record *record = last->record;
    return is_carrier_kind(record->kind) ||
           (record->kind == RECORD_PARKED && (record->dispatched_first || first->record->kind == RECORD_DISPATCHED));
}

static bool has_step(const struct entry *entry, const char *step)
{
    return entry->record->step != NULL && strcmp(entry->record->step->step, step) == 0;
}

/* Of several states of one step the first final one is written, else the last one. */
static struct entry *find_final_step_record(struct entry *first, struct entry *end)
{
    struct entry *stands = first;
    for (struct entry *entry = first + 1; entry < end && !step_state_is_final(stands->record->step->state); entry++) {
        stands = has_step(entry, first->record->step->step) ? entry : stands;
    }
    return stands;
}

/* Whether the record that writes this step was chosen already. */
static bool step_has_writer(const struct entry *first, const struct entry *end, const char *step)
{
    while (first < end && !(first->writes_step && has_step(first, step))) {
        first++;
    }
    return first < end;
}

/* Chooses, among the records of one item in one round, those that are written. They are in the order of an item's life. */
static void choose_carriers(struct entry *first, struct entry *end)
{
    struct entry *last = end - 1;
    for (struct entry *entry = first; entry < end; entry++) {
        if (entry->record->step == NULL || step_has_writer(first, end, entry->record->step->step)) {
            continue;
        }
        struct entry *stands = find_final_step_record(entry, end);
        stands->writes_step = true;
        for (struct entry *other = entry; other < end; other++) {
            if (other != stands && other->record->kind == RECORD_STEP && has_step(other, entry->record->step->step)) {
                other->carrier = stands;
            }
        }
    }
    for (struct entry *entry = first; entry < last && is_carrier(first, last); entry++) {
        entry->carrier = last;
        last->start = last->start == NULL && entry->record->kind == RECORD_DISPATCHED ? entry->record : last->start;
    }
    for (struct entry *entry = end; entry > first && is_carrier_kind(last->record->kind); entry--) {
        const struct step_record *step = entry[-1].record->step;
        bool ended_before = entry[-1].record->step_reported_ago_us > 0; /* the history row has one time for both ends */
        if (entry[-1].writes_step && step != NULL && step_state_is_final(step->state) && !ended_before) {
            entry[-1].ends_with_it = true;
            break;
        }
    }
}

/* A record that comes too late for its stage begins the next round. */
static void plan_rounds(struct set *set)
{
    struct entry *end = set->entries + set->entry_count;
    struct entry *first = set->entries;
    qsort(set->entries, set->entry_count, sizeof *set->entries, compare_entries);
    for (struct entry *entry = set->entries; entry < end; entry++) {
        bool same = entry > set->entries && strcmp(entry[-1].record->id, entry->record->id) == 0;
        entry->round = !same ? 0 : may_follow_in_round(entry - 1, entry) ? entry[-1].round : entry[-1].round + 1;
        if (!same || entry->round != entry[-1].round) {
            if (entry > first) {
                choose_carriers(first, entry);
            }
            first = entry;
        }
        set->rounds = entry->round >= set->rounds ? entry->round + 1 : set->rounds;
    }
    choose_carriers(first, end);
}

/* The record with the outcome of this one, or NULL. The carrier of a step may have a carrier too: the end. */
static const struct entry *carrier_of(const struct entry *entry)
{
    const struct entry *carrier = entry->carrier;
    while (carrier != NULL && carrier->carrier != NULL) {
        carrier = carrier->carrier;
    }
    return carrier;
}

/* --- step 3: one round as arrays --- */

struct arrays {
    struct entry **entries; /* at each place */
    const char **ids;
    int64_t *fences;
    int *kinds;
    int64_t *delays;
    int64_t *started_ago;
    int64_t *end_began_ago;
    int64_t *began_ago;
    const char **codes;
    const char **errors;
    const char **end_steps; /* the step that is stored with the end at this place; NULL = none */
    const char **end_states;
    int *end_attempts;
    int *end_failures;
    int *end_exit_codes;
    struct link_bytes *end_outputs;
    struct link_bytes *end_variables;
    const char **end_codes;
    const char **end_errors;
    size_t count;
    int *step_records;
    const char **steps;
    const char **step_states;
    int *step_attempts;
    int *step_failures;
    int *exit_codes;
    int64_t *due_ins;
    bool *step_ends;
    struct link_bytes *outputs;
    struct link_bytes *variables;
    const char **step_codes;
    const char **step_errors;
    const char **step_signals;
    size_t step_count;
    int *signal_records; /* the signals that steps consume */
    const char **signal_steps;
    int64_t *signal_seqs;
    size_t signal_count;
    int *action_records; /* the actions of states that the records end */
    const char **actions;
    size_t action_count;
    int64_t *park_starts; /* of each record */
    int64_t *ended_ago;   /* of each step */
    bool *taken_over;
    int *attempt_records;
    const char **attempt_steps;
    int *attempts;
    const char **attempt_states;
    int *attempt_exit_codes;
    const char **attempt_codes;
    const char **attempt_errors;
    size_t attempt_count;
    bool needs_events; /* the rows do not show all of the set */
    /* Whether a column has any value. A column without one is sent as an empty array, which costs the server less than an
     * array of NULLs. */
    bool any_code;
    bool any_error;
    bool any_output;
    bool any_variables;
    bool any_step_code;
    bool any_step_error;
    bool any_step_signal;
    bool any_park_start;
    bool any_ended_ago;
    bool any_end_step;
    bool any_end_output;
    bool any_end_variables;
    bool any_end_code;
    bool any_end_error;
};

struct array_place {
    void *at; /* of the pointer */
    size_t size;
};

static bool allocate_each(struct arena *arena, size_t most, const struct array_place *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *array = arena_allocate(arena, (most + 1) * wanted[i].size);
        if (array == NULL) {
            return false;
        }
        memcpy(wanted[i].at, &array, sizeof array);
    }
    return true;
}

/* The arrays with an element for each record. */
static bool allocate_record_arrays(struct arena *arena, size_t most, struct arrays *arrays)
{
    const struct array_place wanted[] = {{&arrays->entries, sizeof *arrays->entries},
                                         {&arrays->ids, sizeof *arrays->ids},
                                         {&arrays->fences, sizeof *arrays->fences},
                                         {&arrays->kinds, sizeof *arrays->kinds},
                                         {&arrays->delays, sizeof *arrays->delays},
                                         {&arrays->started_ago, sizeof *arrays->started_ago},
                                         {&arrays->end_began_ago, sizeof *arrays->end_began_ago},
                                         {&arrays->codes, sizeof *arrays->codes},
                                         {&arrays->errors, sizeof *arrays->errors},
                                         {&arrays->end_steps, sizeof *arrays->end_steps},
                                         {&arrays->end_states, sizeof *arrays->end_states},
                                         {&arrays->end_attempts, sizeof *arrays->end_attempts},
                                         {&arrays->end_failures, sizeof *arrays->end_failures},
                                         {&arrays->end_exit_codes, sizeof *arrays->end_exit_codes},
                                         {&arrays->end_outputs, sizeof *arrays->end_outputs},
                                         {&arrays->end_variables, sizeof *arrays->end_variables},
                                         {&arrays->end_codes, sizeof *arrays->end_codes},
                                         {&arrays->end_errors, sizeof *arrays->end_errors},
                                         {&arrays->park_starts, sizeof *arrays->park_starts},
                                         {&arrays->taken_over, sizeof *arrays->taken_over}};
    return allocate_each(arena, most, wanted, sizeof wanted / sizeof wanted[0]);
}

/* The arrays with an element for some of the steps. */
static bool allocate_step_arrays(struct arena *arena, size_t most, struct arrays *arrays)
{
    const struct array_place wanted[] = {{&arrays->began_ago, sizeof *arrays->began_ago},
                                         {&arrays->step_records, sizeof *arrays->step_records},
                                         {&arrays->steps, sizeof *arrays->steps},
                                         {&arrays->step_states, sizeof *arrays->step_states},
                                         {&arrays->step_attempts, sizeof *arrays->step_attempts},
                                         {&arrays->step_failures, sizeof *arrays->step_failures},
                                         {&arrays->exit_codes, sizeof *arrays->exit_codes},
                                         {&arrays->due_ins, sizeof *arrays->due_ins},
                                         {&arrays->step_ends, sizeof *arrays->step_ends},
                                         {&arrays->outputs, sizeof *arrays->outputs},
                                         {&arrays->variables, sizeof *arrays->variables},
                                         {&arrays->step_codes, sizeof *arrays->step_codes},
                                         {&arrays->step_errors, sizeof *arrays->step_errors},
                                         {&arrays->step_signals, sizeof *arrays->step_signals},
                                         {&arrays->signal_records, sizeof *arrays->signal_records},
                                         {&arrays->signal_steps, sizeof *arrays->signal_steps},
                                         {&arrays->signal_seqs, sizeof *arrays->signal_seqs},
                                         {&arrays->action_records, sizeof *arrays->action_records},
                                         {&arrays->actions, sizeof *arrays->actions},
                                         {&arrays->ended_ago, sizeof *arrays->ended_ago},
                                         {&arrays->attempt_records, sizeof *arrays->attempt_records},
                                         {&arrays->attempt_steps, sizeof *arrays->attempt_steps},
                                         {&arrays->attempts, sizeof *arrays->attempts},
                                         {&arrays->attempt_states, sizeof *arrays->attempt_states},
                                         {&arrays->attempt_exit_codes, sizeof *arrays->attempt_exit_codes},
                                         {&arrays->attempt_codes, sizeof *arrays->attempt_codes},
                                         {&arrays->attempt_errors, sizeof *arrays->attempt_errors}};
    return allocate_each(arena, most, wanted, sizeof wanted / sizeof wanted[0]);
}

/* Whether the step has an element in an array of steps. Most steps end with their execution and need none. */
static bool needs_step_arrays(const struct entry *entry)
{
    const struct step_record *step = entry->record->step;
    return step != NULL &&
           (!entry->ends_with_it || step->signal_seq > 0 || step->action != NULL || step_record_lost_attempt(step) != NULL);
}

static bool allocate_arrays(struct set *set, struct arrays *arrays)
{
    size_t steps = 0;
    for (size_t i = 0; i < set->entry_count; i++) {
        steps += needs_step_arrays(&set->entries[i]);
    }
    return allocate_record_arrays(&set->arena, set->entry_count, arrays) &&
           allocate_step_arrays(&set->arena, steps, arrays);
}

static int64_t clamp_delay(int64_t delay_us)
{
    return delay_us < 0 ? 0 : delay_us > DELAY_MOST_US ? DELAY_MOST_US : delay_us;
}

/* The server refuses text that is not UTF-8. A message of an engine must not make it refuse the end of an execution. */
static const char *copy_safe_text(struct arena *arena, const char *message, bool *ret_failed)
{
    if (message == NULL || text_is_utf8(message, strlen(message))) {
        return message;
    }
    char *copy = arena_copy_string(arena, message);
    *ret_failed = *ret_failed || copy == NULL;
    if (copy != NULL) {
        text_make_safe(copy);
    }
    return copy;
}

static struct link_bytes variables_of_step(const struct step_record *step)
{
    return (struct link_bytes){step->variables, step->variables == NULL ? 0 : strlen(step->variables)};
}

static const char *code_of_step(struct arena *arena, const struct step_record *step, bool *ret_failed)
{
    return step->error_code[0] == '\0' ? NULL : copy_safe_text(arena, step->error_code, ret_failed);
}

/* The finished step that is stored with an end, at the place of the end. */
static void add_end_step_columns(struct arena *arena, const struct record *record, int place, struct arrays *to,
                                 bool *ret_failed)
{
    size_t at = (size_t)place - 1;
    const struct step_record *step = record->step;
    to->end_began_ago[at] = record->step_began_ago_us < 0 ? -1 : clamp_delay(record->step_began_ago_us);
    to->end_steps[at] = step->step;
    to->end_states[at] = step_state_name(step->state);
    to->end_attempts[at] = step->attempt;
    to->end_failures[at] = step->failures;
    to->end_exit_codes[at] = step->exit_code;
    to->end_outputs[at] = (struct link_bytes){step->output, step->output_length};
    to->end_variables[at] = variables_of_step(step);
    to->end_codes[at] = code_of_step(arena, step, ret_failed);
    to->end_errors[at] = copy_safe_text(arena, step->error, ret_failed);
    to->any_end_step = true;
    to->any_end_output = to->any_end_output || to->end_outputs[at].data != NULL;
    to->any_end_variables = to->any_end_variables || to->end_variables[at].data != NULL;
    to->any_end_code = to->any_end_code || to->end_codes[at] != NULL;
    to->any_end_error = to->any_end_error || to->end_errors[at] != NULL;
}

/* A step that has a row of its own. */
static void add_step_columns(struct arena *arena, const struct record *record, int place, struct arrays *to,
                             bool *ret_failed)
{
    size_t at = to->step_count++;
    const struct step_record *step = record->step;
    to->began_ago[at] = record->step_began_ago_us < 0 ? -1 : clamp_delay(record->step_began_ago_us);
    to->step_records[at] = place;
    to->steps[at] = step->step;
    to->step_states[at] = step_state_name(step->state);
    to->step_attempts[at] = step->attempt;
    to->step_failures[at] = step->failures;
    to->exit_codes[at] = step->exit_code;
    bool is_due = step->state == STEP_WAITING && step->due_in_us != TIME_NEVER;
    to->due_ins[at] = is_due ? clamp_delay(step->due_in_us - record->step_reported_ago_us) : -1;
    to->step_ends[at] = step_state_is_final(step->state);
    to->ended_ago[at] = to->step_ends[at] ? clamp_delay(record->step_reported_ago_us) : 0;
    to->any_ended_ago = to->any_ended_ago || to->ended_ago[at] > 0;
    to->outputs[at] = (struct link_bytes){step->output, step->output_length};
    to->variables[at] = variables_of_step(step);
    to->step_codes[at] = code_of_step(arena, step, ret_failed);
    to->step_errors[at] = copy_safe_text(arena, step->error, ret_failed);
    to->step_signals[at] = step->signal[0] == '\0' ? NULL : step->signal;
    to->any_step_signal = to->any_step_signal || to->step_signals[at] != NULL;
    to->any_output = to->any_output || to->outputs[at].data != NULL;
    to->any_variables = to->any_variables || to->variables[at].data != NULL;
    to->any_step_code = to->any_step_code || to->step_codes[at] != NULL;
    to->any_step_error = to->any_step_error || to->step_errors[at] != NULL;
}

/* The signal that has ended the step is consumed if the record takes effect. */
static void add_signal_columns(const struct step_record *step, int place, struct arrays *to)
{
    size_t at = to->signal_count++;
    to->signal_records[at] = place;
    to->signal_steps[at] = step->step;
    to->signal_seqs[at] = step->signal_seq;
}

/* The action of a state that this step ends, once its record takes effect. */
static void add_action_columns(const struct step_record *step, int place, struct arrays *to)
{
    size_t at = to->action_count++;
    to->action_records[at] = place;
    to->actions[at] = step->action;
}

/* An attempt that failed, or was stopped with its node, and that another attempt follows. */
static void add_attempt_columns(struct arena *arena, const struct step_record *step, int place, struct arrays *to,
                                bool *ret_failed)
{
    size_t at = to->attempt_count++;
    to->attempt_records[at] = place;
    to->attempt_steps[at] = step->step;
    to->attempts[at] = step->attempt;
    to->attempt_states[at] = step_record_lost_attempt(step);
    to->attempt_exit_codes[at] = step->exit_code;
    to->attempt_codes[at] = copy_safe_text(arena, step->error_code, ret_failed);
    to->attempt_errors[at] = copy_safe_text(arena, step->error, ret_failed);
}

/* The kinds of records that end a claim and not its execution. */
static bool ends_claim(enum record_kind kind)
{
    return kind == RECORD_RETRY || kind == RECORD_DEFERRED || kind == RECORD_PUT_BACK || kind == RECORD_GIVEN_BACK ||
           kind == RECORD_PARKED;
}

/* One element of each array of records. */
static void add_record_columns(struct set *set, struct entry *entry, struct arrays *to, bool *ret_failed)
{
    const struct record *record = entry->record;
    size_t at = to->count++;
    INVARIANT((unsigned)record->kind < RECORD_KIND_COUNT && entry->carrier == NULL);
    entry->place = (int)at + 1; /* the server counts from 1 */
    to->entries[at] = entry;
    to->ids[at] = record->id;
    to->fences[at] = record->fence;
    to->kinds[at] = (int)record->kind;
    to->delays[at] = record->delay_us == TIME_NEVER ? -1 : clamp_delay(record->delay_us);
    bool is_start = record->kind == RECORD_DISPATCHED || record->dispatched_first;
    const struct record *start = entry->start != NULL ? entry->start : is_start ? record : NULL;
    int64_t started_ago = start == NULL ? -1 : clamp_delay(start->started_ago_us);
    to->started_ago[at] = record->kind == RECORD_PARKED ? record->signals_seen : started_ago;
    to->park_starts[at] = record->kind == RECORD_PARKED ? started_ago : -1;
    to->any_park_start = to->any_park_start || to->park_starts[at] >= 0;
    to->end_began_ago[at] = 0;
    to->end_steps[at] = NULL;
    to->end_states[at] = NULL;
    to->end_attempts[at] = 0;
    to->end_failures[at] = 0;
    to->end_exit_codes[at] = -1;
    to->end_outputs[at] = (struct link_bytes){NULL, 0};
    to->end_variables[at] = (struct link_bytes){NULL, 0};
    to->end_codes[at] = NULL;
    to->end_errors[at] = NULL;
    to->codes[at] = record->kind == RECORD_PARKED ? wait_kind_name(record->waiting_for)
                                                  : copy_safe_text(&set->arena, record->error_code, ret_failed);
    to->errors[at] = copy_safe_text(&set->arena, record->error, ret_failed);
    to->any_code = to->any_code || to->codes[at] != NULL;
    to->any_error = to->any_error || to->errors[at] != NULL;
    to->taken_over[at] = record->taken_over;
    to->needs_events = to->needs_events || record->taken_over || ends_claim(record->kind);
}

/* A step is written only if its record, or the record that carries it, takes effect. The state that a record ends, its
 * action and its signal count though a later record of the step is written. */
static bool fill_arrays(struct set *set, size_t round, struct arrays *to)
{
    bool failed = false;
    for (size_t i = 0; i < set->entry_count; i++) {
        if (set->entries[i].round == round && set->entries[i].carrier == NULL && !set->entries[i].is_blocked) {
            add_record_columns(set, &set->entries[i], to, &failed);
        }
    }
    for (size_t i = 0; i < set->entry_count; i++) {
        const struct entry *entry = &set->entries[i];
        const struct step_record *step = entry->record->step;
        if (entry->round != round || step == NULL || entry->is_blocked) {
            continue;
        }
        const struct entry *written = carrier_of(entry) == NULL ? entry : carrier_of(entry);
        if (entry->writes_step && entry->ends_with_it) {
            add_end_step_columns(&set->arena, entry->record, written->place, to, &failed);
        } else if (entry->writes_step) {
            add_step_columns(&set->arena, entry->record, written->place, to, &failed);
        }
        if (step->signal_seq > 0) {
            add_signal_columns(step, written->place, to);
        }
        if (step->action != NULL) {
            add_action_columns(step, written->place, to);
        }
        if (step_record_lost_attempt(step) != NULL) {
            add_attempt_columns(&set->arena, step, written->place, to, &failed);
        }
        to->needs_events = to->needs_events || step->attempt > 1;
    }
    to->needs_events = to->needs_events || to->attempt_count > 0;
    return !failed;
}

static enum weir_status parse_record_outcome(const char *outcome, bool *ret_repeated)
{
    *ret_repeated = strcmp(outcome, "repeated") == 0;
    return *ret_repeated                         ? WEIR_OK
           : strcmp(outcome, "stale_fence") == 0 ? WEIR_STALE_FENCE
           : strcmp(outcome, "not_found") == 0   ? WEIR_EXECUTION_NOT_FOUND
                                                 : WEIR_ILLEGAL_STATE;
}

/* The server returns only records that did not simply take effect, so all of them count as changed first. */
static void read_record_outcomes(struct set *set, const PGresult *result, const struct arrays *arrays)
{
    for (size_t i = 0; i < arrays->count; i++) {
        arrays->entries[i]->record->status = WEIR_OK;
        arrays->entries[i]->record->is_cancelled = false;
    }
    set->summary.changed += arrays->count;
    for (int row = 0; row < PQntuples(result); row++) {
        if (result_null(result, row, 0)) {
            set->summary.slots_freed += (size_t)result_int(result, row, 2);
        } else if (strcmp(result_text(result, row, 1), "poisoned") == 0) {
            set->summary.poisoned++;
        } else {
            bool repeated;
            int64_t place = result_int(result, row, 0);
            INVARIANT(place >= 1 && (size_t)place <= arrays->count);
            struct record *record = arrays->entries[place - 1]->record;
            record->is_cancelled = strcmp(result_text(result, row, 1), "cancelled") == 0;
            if (!record->is_cancelled) {
                record->status = parse_record_outcome(result_text(result, row, 1), &repeated);
                set->summary.changed--;
            }
        }
    }
}

/* The length of an array: 0 for a column without a value. */
static size_t count_unless_empty(bool any, size_t count)
{
    return any ? count : 0;
}

/* The letters of link.h for the common arguments of both functions. */
#define SIGNAL_TYPES "TDTIDTII"
#define SIGNAL_VALUES(a)                                                                                                   \
    (a)->step_signals, count_unless_empty((a)->any_step_signal, (a)->step_count), (a)->signal_records, (a)->signal_count,  \
        (a)->signal_steps, (a)->signal_count, (a)->signal_seqs, (a)->signal_count, (a)->action_records, (a)->action_count, \
        (a)->actions, (a)->action_count, (a)->park_starts, count_unless_empty((a)->any_park_start, (a)->count),            \
        (a)->ended_ago, count_unless_empty((a)->any_ended_ago, (a)->step_count)
#define SET_TYPES "iUIDIITTTTDDDIBBTTDTTDDDIIOBBTT"
#define SET_VALUES(set, a)                                                                                                 \
    (set)->node_id, (a)->ids, (a)->count, (a)->fences, (a)->count, (a)->kinds, (a)->count, (a)->delays, (a)->count,        \
        (a)->started_ago, (a)->count, (a)->codes, count_unless_empty((a)->any_code, (a)->count), (a)->errors,              \
        count_unless_empty((a)->any_error, (a)->count), (a)->end_steps, count_unless_empty((a)->any_end_step, (a)->count), \
        (a)->end_states, count_unless_empty((a)->any_end_step, (a)->count), (a)->end_attempts,                             \
        count_unless_empty((a)->any_end_step, (a)->count), (a)->end_failures,                                              \
        count_unless_empty((a)->any_end_step, (a)->count), (a)->end_exit_codes,                                            \
        count_unless_empty((a)->any_end_step, (a)->count), (a)->end_began_ago,                                             \
        count_unless_empty((a)->any_end_step, (a)->count), (a)->end_outputs,                                               \
        count_unless_empty((a)->any_end_output, (a)->count), (a)->end_variables,                                           \
        count_unless_empty((a)->any_end_variables, (a)->count), (a)->end_codes,                                            \
        count_unless_empty((a)->any_end_code, (a)->count), (a)->end_errors,                                                \
        count_unless_empty((a)->any_end_error, (a)->count), (a)->step_records, (a)->step_count, (a)->steps,                \
        (a)->step_count, (a)->step_states, (a)->step_count, (a)->step_attempts, (a)->step_count, (a)->step_failures,       \
        (a)->step_count, (a)->exit_codes, (a)->step_count, (a)->began_ago, (a)->step_count, (a)->due_ins, (a)->step_count, \
        (a)->step_ends, (a)->step_count, (a)->outputs, count_unless_empty((a)->any_output, (a)->step_count),               \
        (a)->variables, count_unless_empty((a)->any_variables, (a)->step_count), (a)->step_codes,                          \
        count_unless_empty((a)->any_step_code, (a)->step_count), (a)->step_errors,                                         \
        count_unless_empty((a)->any_step_error, (a)->step_count)

static enum weir_status send_record_round(struct link *link, const struct set *set, const struct arrays *a,
                                          PGresult **ret_result, struct weir_error *error)
{
    if (!a->needs_events) {
        return link_write(link, error, ret_result, QUERY_RECORD_SET, SET_TYPES SIGNAL_TYPES, SET_VALUES(set, a),
                          SIGNAL_VALUES(a));
    }
    return link_write(link, error, ret_result, QUERY_RECORD_EVENTS, SET_TYPES "ODTDTDTT" SIGNAL_TYPES, SET_VALUES(set, a),
                      a->taken_over, a->count, a->attempt_records, a->attempt_count, a->attempt_steps, a->attempt_count,
                      a->attempts, a->attempt_count, a->attempt_states, a->attempt_count, a->attempt_exit_codes,
                      a->attempt_count, a->attempt_codes, a->attempt_count, a->attempt_errors, a->attempt_count,
                      SIGNAL_VALUES(a));
}

/* Writes one round of the set in one statement. */
static enum weir_status write_record_round(struct link *link, struct set *set, size_t round, struct weir_error *error)
{
    struct arrays a = {0};
    PGresult *result = NULL;
    if (!allocate_arrays(set, &a) || !fill_arrays(set, round, &a)) {
        return error_out_of_memory(error);
    }
    if (a.count == 0) {
        return WEIR_OK; /* every record of the round is blocked */
    }
    enum weir_status status = send_record_round(link, set, &a, &result, error);
    if (status == WEIR_OK) {
        read_record_outcomes(set, result, &a);
    }
    PQclear(result);
    return status;
}

/* --- the verb --- */

/* An end that a worker reported names its actor; it is alone in its set. */
static bool has_reporter(const struct set *set)
{
    return set->count == 1 && set->records[0].actor != NULL;
}

static enum weir_status write_reporter_event(struct link *link, const struct set *set, struct weir_error *error)
{
    const struct record *record = &set->records[0];
    return link_run(link, error, NULL, QUERY_NOTE_REPORTER, "uiitttt", record->id, set->node_id, record->fence,
                    record->actor, record->error_code, item_state_name(record_end_state(record->kind)),
                    store_reason(set->store));
}

/* The body of the transaction; it may be called again, so it counts from 0. */
static enum weir_status write_record_rounds(struct link *link, void *context, struct weir_error *error)
{
    struct set *set = context;
    enum weir_status status = WEIR_OK;
    set->summary = (struct record_summary){0};
    for (size_t round = 0; round < set->rounds && status == WEIR_OK; round++) {
        status = write_record_round(link, set, round, error);
    }
    if (status == WEIR_OK && has_reporter(set) && set->summary.changed > 0) {
        status = write_reporter_event(link, set, error);
    }
    return status;
}

/* Locks every item of the set that no other transaction has locked, and marks the records of the others. */
static enum weir_status lock_unblocked_items(struct link *link, struct set *set, struct weir_error *error)
{
    PGresult *result = NULL;
    const char **ids = arena_allocate(&set->arena, set->entry_count * sizeof *ids);
    if (ids == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < set->entry_count; i++) {
        ids[i] = set->entries[i].record->id;
        set->entries[i].is_blocked = false;
    }
    enum weir_status status = link_write(link, error, &result, QUERY_HELD_BY_OTHERS, "U", ids, set->entry_count);
    set->any_blocked = status == WEIR_OK && PQntuples(result) > 0;
    for (int row = 0; status == WEIR_OK && row < PQntuples(result); row++) {
        int64_t place = result_int(result, row, 0);
        INVARIANT(place >= 1 && (size_t)place <= set->entry_count);
        set->entries[place - 1].is_blocked = true;
    }
    PQclear(result);
    return status;
}

/* Step 5: held_by_others() has locked every item that it does not return, so no round waits for another transaction. */
static enum weir_status write_unblocked_records(struct link *link, void *context, struct weir_error *error)
{
    struct set *set = context;
    enum weir_status status = lock_unblocked_items(link, set, error);
    return status == WEIR_OK ? write_record_rounds(link, set, error) : status;
}

/* Steps 4 and 5 of the file comment. */
static enum weir_status write_record_set(struct postgres_store *store, struct set *set, struct weir_error *error)
{
    struct link *link = &store->link;
    bool skips_blocked = clock_boot(clock_system()) < store->skips_blocked_until_us && !has_reporter(set);
    enum weir_status status = WEIR_OK;
    if (!skips_blocked) {
        /* A statement is a transaction: one round needs no trips for BEGIN and COMMIT. */
        status = set->rounds == 1 && !has_reporter(set) ? write_record_rounds(link, set, error)
                                                        : link_transaction(link, write_record_rounds, set, error);
        skips_blocked = status == WEIR_STORE_BUSY && strcmp(link->sqlstate, "55P03") == 0 && !has_reporter(set);
    }
    if (skips_blocked) {
        status = link_transaction(link, write_unblocked_records, set, error);
    }
    if (status == WEIR_OK && set->any_blocked) {
        store->skips_blocked_until_us = time_add(clock_boot(clock_system()), SKIP_BLOCKED_US);
    }
    return status;
}

/* Records with an id that is none, or with too much output, get their status here and are not sent. */
static enum weir_status open_record_set(struct set *set, struct weir_error *error)
{
    arena_init(&set->arena, SET_BYTES_MAX);
    set->entries = arena_allocate(&set->arena, (set->count + 1) * sizeof *set->entries);
    if (set->entries == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < set->count; i++) {
        struct record *record = &set->records[i];
        if (!uuid_is_valid(record->id)) {
            record->status = WEIR_EXECUTION_NOT_FOUND;
        } else if (record->step != NULL && record->step->output_length > STEP_OUTPUT_BYTES_MAX) {
            record->status = WEIR_INVALID_ARGUMENT;
        } else {
            set->entries[set->entry_count++] = (struct entry){.record = record, .index = i};
        }
    }
    return WEIR_OK;
}

enum weir_status postgres_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                                 struct record_summary *ret_summary, struct weir_error *error)
{
    INVARIANT(records != NULL && count > 0 && ret_summary != NULL && node_id >= 0);
    INVARIANT(!postgres_of(store)->link.in_transaction);
    struct set set = {.store = store, .node_id = node_id, .records = records, .count = count};
    link_start(&postgres_of(store)->link);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = open_record_set(&set, error);
    }
    if (status == WEIR_OK && set.entry_count > 0) {
        plan_rounds(&set);
        status = write_record_set(postgres_of(store), &set, error);
    }
    for (size_t i = 0; i < set.entry_count && status == WEIR_OK; i++) {
        const struct entry *carrier = carrier_of(&set.entries[i]);
        if (set.entries[i].is_blocked) {
            set.entries[i].record->status = WEIR_STORE_BUSY;
        } else if (carrier != NULL) {
            set.entries[i].record->status = carrier->record->status;
            set.summary.changed += carrier->record->status == WEIR_OK;
        }
    }
    arena_close(&set.arena);
    if (status == WEIR_OK) {
        set.summary.work_waits = set.summary.slots_freed > 0;
        *ret_summary = set.summary;
    }
    return status;
}
