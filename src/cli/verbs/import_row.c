/* Reads one row of nFlow or Riven.
 *
 * 1. The columns are parsed. A column may be missing or have any type: then the row is refused, never guessed.
 * 2. The state decides whether the row is enqueued. In doubt it stays: a row that both systems run is worse than one that
 *    waits for an answer of its operator.
 * 3. Params are the data of the row. nFlow keeps variables as texts, without their types. A text that is an object, a list,
 *    a text in quotes, true, false, null or a whole number becomes that value. Any other stays a text. The input of Riven
 *    keeps its values.
 * 4. A row that has begun gets its place in the other system as one more param, `import`, so that its workflow can decide
 *    by it. Other rows get none: their params are exactly the data.
 * 5. The key is made of the system and the id of the row, so that a repetition finds the execution. Labels name the row.
 *
 * Nothing here makes a call. */
#include "cli/verbs/import_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* Whole numbers that a double keeps, as JSON readers of other languages have them. */
#define NUMBER_MOST (INT64_C(1) << 53)
enum { NUMBER_TEXT_MAX = 24, KEY_BYTES_MAX = 512, MESSAGE_BYTES_MAX = 160, VALUE_LEVELS = 1 };

struct reading {
    const struct import_row *row;
    const struct import_rules *rules;
    struct arena *arena;
    struct enqueue_request *request;
    struct import_choice *choice;
    json_t *columns;
    json_t *details; /* of the place of a row that has begun; NULL: it has not */
};

const char *import_reason_code(enum import_reason reason)
{
    static const char *const codes[] = {[IMPORT_NO_REASON] = "",
#define IMPORT_REASON_CODE(id, code, sentence) [id] = code,
                                        IMPORT_REASON_LIST(IMPORT_REASON_CODE)
#undef IMPORT_REASON_CODE
    };
    return codes[reason];
}

const char *import_reason_sentence(enum import_reason reason)
{
    static const char *const sentences[] = {[IMPORT_NO_REASON] = "",
#define IMPORT_REASON_SENTENCE(id, code, sentence) [id] = sentence,
                                            IMPORT_REASON_LIST(IMPORT_REASON_SENTENCE)
#undef IMPORT_REASON_SENTENCE
    };
    return sentences[reason];
}

/* The workflow that the rules give to a type: the last of the maps that names it, or else the type. */
static const char *import_workflow_of(const struct import_rules *rules, const char *type)
{
    size_t length = strlen(type);
    const char *workflow = type;
    for (size_t i = 0; i < rules->map_count; i++) {
        if (strncmp(rules->maps[i], type, length) == 0 && rules->maps[i][length] == '=') {
            workflow = rules->maps[i] + length + 1;
        }
    }
    return workflow;
}

/* --- choices --- */

static enum weir_status leave_row(struct reading *reading, enum import_reason reason)
{
    reading->choice->outcome = IMPORT_STAYS;
    reading->choice->reason = reason;
    return WEIR_OK;
}

/* `what`: more than the reason, or NULL. */
static enum weir_status refuse_row(struct reading *reading, enum import_reason reason, const char *what)
{
    reading->choice->outcome = IMPORT_REFUSED;
    reading->choice->reason = reason;
    reading->choice->message = what == NULL ? NULL : arena_copy_string(reading->arena, what);
    return WEIR_OK;
}

static enum weir_status refuse_column(struct reading *reading, const char *name)
{
    char text[MESSAGE_BYTES_MAX];
    (void)snprintf(text, sizeof text, "the column %s is missing, or has another type", name);
    return refuse_row(reading, IMPORT_UNREADABLE, text);
}

/* --- columns --- */

/* The text of a column; NULL: it is NULL, missing, or no text. */
static const char *import_column_text(const struct reading *reading, const char *name)
{
    return json_string_value(json_object_get(reading->columns, name));
}

static bool column_is_null(const struct reading *reading, const char *name)
{
    const json_t *value = json_object_get(reading->columns, name);
    return value == NULL || json_is_null(value);
}

/* False: it is no whole number. NULL and a missing one are 0. */
static bool column_integer(const struct reading *reading, const char *name, int64_t *ret_number)
{
    const json_t *value = json_object_get(reading->columns, name);
    *ret_number = json_integer_value(value);
    return json_is_integer(value) || column_is_null(reading, name);
}

/* A time with or without a zone; one without is UTC. False: it is no time. */
static bool column_time(const struct reading *reading, const char *name, int64_t *ret_time_us)
{
    char zoned[TIME_TEXT_MAX + 2];
    const char *text = import_column_text(reading, name);
    if (text == NULL || text[0] < '0' || text[0] > '9' || strlen(text) >= TIME_TEXT_MAX || strchr(text, '-') == NULL) {
        return false; /* a relative time, as 10m, is none here */
    }
    if (time_parse(text, 0, ret_time_us, NULL) == WEIR_OK) {
        return true;
    }
    (void)snprintf(zoned, sizeof zoned, "%sZ", text);
    return time_parse(zoned, 0, ret_time_us, NULL) == WEIR_OK;
}

/* --- labels and details --- */

/* A NULL or empty text is left out. False: out of memory. */
static bool add_row_text(json_t *object, const char *name, const char *text)
{
    return text == NULL || text[0] == '\0' || json_object_set_new(object, name, json_string(text)) == 0;
}

/* Writes the object into the arena. Releases it; NULL = out of memory already. */
static enum weir_status keep_json(struct reading *reading, json_t *object, const char **ret_text, struct weir_error *error)
{
    struct text text = {.max = 2 * IMPORT_DATA_BYTES_MAX};
    enum weir_status status = object == NULL ? error_out_of_memory(error) : json_write(object, &text, error);
    if (status == WEIR_OK) {
        *ret_text = arena_copy(reading->arena, text.data, text.length);
        status = *ret_text == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    text_close(&text);
    json_decref(object);
    return status;
}

/* Labels that name the row: an import is found, counted and cancelled by them. */
static enum weir_status add_import_labels(struct reading *reading, int64_t attempts, struct weir_error *error)
{
    char number[NUMBER_TEXT_MAX];
    json_t *labels = json_object();
    (void)snprintf(number, sizeof number, "%" PRId64, attempts);
    bool is_fine = labels != NULL && add_row_text(labels, "import", reading->rules->system_name) &&
                   add_row_text(labels, "import_id", reading->row->id) &&
                   add_row_text(labels, "import_state", import_column_text(reading, "state")) &&
                   add_row_text(labels, "import_attempts", number) &&
                   add_row_text(labels, "external_id", import_column_text(reading, "external_id"));
    if (!is_fine) {
        json_decref(labels);
        return error_out_of_memory(error);
    }
    return keep_json(reading, labels, &reading->request->labels, error);
}

/* The columns of the place of a row that has begun, as the param `import`. */
static enum weir_status note_details(struct reading *reading, struct weir_error *error)
{
    static const char *const names[] = {
        "type",         "state",    "status",          "retries",   "external_id", "business_key",
        "created",      "started",  "workflow_signal", "job_type",  "entity_id",   "workflow_definition_id",
        "execution_id", "attempts", "attempt_count",   "created_at"};
    json_t *details = json_object();
    bool is_fine = details != NULL && add_row_text(details, "system", reading->rules->system_name) &&
                   add_row_text(details, "id", reading->row->id);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && is_fine; i++) {
        json_t *value = json_object_get(reading->columns, names[i]);
        is_fine = value == NULL || json_is_null(value) || json_object_set(details, names[i], value) == 0;
    }
    reading->details = details;
    return is_fine ? WEIR_OK : error_out_of_memory(error);
}

/* --- params --- */

/* Whether the text is a whole number in the only spelling that JSON writes. */
static bool is_whole_number(const char *text)
{
    char again[NUMBER_TEXT_MAX];
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof again || strspn(text, "-0123456789") != length) {
        return false;
    }
    int64_t number = strtoll(text, NULL, 10);
    (void)snprintf(again, sizeof again, "%" PRId64, number);
    return strcmp(again, text) == 0 && number <= NUMBER_MOST && number >= -NUMBER_MOST;
}

/* The value of a variable; NULL = out of memory. */
static json_t *value_of_variable(const char *text)
{
    json_t *value = NULL;
    bool is_json = strchr("{[\"", text[0]) != NULL || strcmp(text, "true") == 0 || strcmp(text, "false") == 0 ||
                   strcmp(text, "null") == 0 || is_whole_number(text);
    if (is_json && text[0] != '\0' && json_read_below(text, strlen(text), VALUE_LEVELS, &value, NULL) == WEIR_OK) {
        return value;
    }
    return json_string(text);
}

/* Params of an object of texts. */
static enum weir_status params_of_variables(struct reading *reading, const json_t *variables, struct weir_error *error)
{
    const char *name;
    json_t *text;
    json_t *params = json_object();
    bool is_fine = params != NULL;
    json_object_foreach((json_t *)variables, name, text)
    {
        json_t *value = is_fine && json_is_string(text) ? value_of_variable(json_string_value(text)) : json_null();
        is_fine = is_fine && value != NULL && json_object_set_new_nocheck(params, name, value) == 0;
    }
    is_fine = is_fine && (reading->details == NULL || json_object_set(params, "import", reading->details) == 0);
    if (!is_fine) {
        json_decref(params);
        return error_out_of_memory(error);
    }
    enum weir_status status = keep_json(reading, params, &reading->request->params, error);
    if (status == WEIR_FAILED) { /* escapes have made it longer than any params may be */
        return refuse_row(reading, IMPORT_TOO_LARGE, NULL);
    }
    reading->request->params_length = status == WEIR_OK ? strlen(reading->request->params) : 0;
    return status;
}

/* The state variables of nFlow. */
static enum weir_status read_variables(struct reading *reading, struct weir_error *error)
{
    json_t *variables = NULL;
    enum weir_status status = WEIR_OK;
    if (reading->row->data != NULL) {
        status = json_read(reading->row->data, reading->row->data_length, &variables, NULL);
        if (status == WEIR_OUT_OF_MEMORY) {
            return error_out_of_memory(error);
        }
    }
    if (status != WEIR_OK) {
        status = refuse_row(reading, IMPORT_UNREADABLE, "the state variables are no JSON object with a key for each");
    } else if (reading->details != NULL && json_object_get(variables, "import") != NULL) {
        status = refuse_row(reading, IMPORT_NAME_TAKEN, NULL);
    } else {
        status = params_of_variables(reading, variables, error);
    }
    json_decref(variables);
    return status;
}

/* The input of Riven: as it is, with the details in front of its first key. The store checks whether it is an object, and
 * whether it has a key twice. */
static enum weir_status read_input(struct reading *reading, struct weir_error *error)
{
    const char *input = reading->row->data;
    size_t length = reading->row->data_length;
    const char *details = NULL;
    if (input == NULL || (length == 4 && memcmp(input, "null", 4) == 0)) {
        input = "{}";
        length = 2;
    }
    reading->request->params = input;
    reading->request->params_length = length;
    if (reading->details == NULL || input[0] != '{') {
        return WEIR_OK;
    }
    enum weir_status status = keep_json(reading, json_incref(reading->details), &details, error);
    if (status != WEIR_OK) {
        return status;
    }
    size_t room = length + strlen(details) + sizeof "{\"import\":,";
    char *params = arena_allocate(reading->arena, room);
    if (params == NULL) {
        return error_out_of_memory(error);
    }
    int head = snprintf(params, room, "{\"import\":%s%s", details, length == 2 ? "" : ",");
    memcpy(params + head, input + 1, length - 1);
    reading->request->params = params;
    reading->request->params_length = (size_t)head + length - 1;
    return WEIR_OK;
}

/* --- the systems --- */

/* Cuts to the range of weir. */
static int priority_of(struct reading *reading, int64_t priority)
{
    int64_t cut = priority < PRIORITY_LEAST ? PRIORITY_LEAST : priority > PRIORITY_MOST ? PRIORITY_MOST : priority;
    reading->choice->is_cut = cut != priority;
    return (int)cut;
}

/* The labels of the row, and its place in the other system when it has begun there. */
static enum weir_status note_origin(struct reading *reading, bool is_begun, int64_t attempts, struct weir_error *error)
{
    enum weir_status status = is_begun ? note_details(reading, error) : WEIR_OK;
    return status == WEIR_OK ? add_import_labels(reading, attempts, error) : status;
}

static bool nflow_has_begun(const struct reading *reading)
{
    return strcmp(reading->choice->state, "created") != 0 || !column_is_null(reading, "started");
}

/* The reason for which an instance of nFlow stays there, by its status; IMPORT_NO_REASON = none. */
static enum import_reason nflow_reason(const struct reading *reading)
{
    const char *status = reading->choice->state;
    bool waits_for_a_node = strcmp(status, "created") == 0 || strcmp(status, "inProgress") == 0;
    if (strcmp(status, "executing") == 0 || (waits_for_a_node && !column_is_null(reading, "executor_id"))) {
        return IMPORT_RUNS;
    }
    if (strcmp(status, "manual") == 0) {
        return IMPORT_WAITS;
    }
    if (!waits_for_a_node) {
        return IMPORT_STATE;
    }
    if (!column_is_null(reading, "parent_workflow_id")) {
        return IMPORT_CHILD;
    }
    if (column_is_null(reading, "next_activation")) {
        return IMPORT_WAITS;
    }
    return nflow_has_begun(reading) && !reading->rules->takes_begun ? IMPORT_BEGUN : IMPORT_NO_REASON;
}

static enum weir_status read_nflow(struct reading *reading, struct weir_error *error)
{
    int64_t priority = 0;
    int64_t retries = 0;
    struct enqueue_request *request = reading->request;
    enum import_reason reason = nflow_reason(reading);
    if (reason == IMPORT_STATE) {
        return refuse_row(reading, reason, NULL);
    }
    if (reason != IMPORT_NO_REASON) {
        return leave_row(reading, reason);
    }
    if (!column_time(reading, "next_activation", &request->run_at_us)) {
        return refuse_column(reading, "next_activation");
    }
    if (!column_integer(reading, "priority", &priority) || !column_integer(reading, "retries", &retries)) {
        return refuse_column(reading, "priority or retries");
    }
    request->priority = priority_of(reading, priority);
    request->business_key = import_column_text(reading, "business_key");
    enum weir_status status = note_origin(reading, nflow_has_begun(reading), retries, error);
    return status == WEIR_OK ? read_variables(reading, error) : status;
}

static enum weir_status read_riven(struct reading *reading, struct weir_error *error)
{
    const char *status_name = reading->choice->state;
    const char *counter = column_is_null(reading, "attempts") ? "attempt_count" : "attempts";
    int64_t attempts = 0;
    struct enqueue_request *request = reading->request;
    bool is_begun = !column_is_null(reading, "execution_id") || !column_is_null(reading, "dispatched_at");
    if (strcmp(status_name, "CLAIMED") == 0 || strcmp(status_name, "DISPATCHED") == 0) {
        return leave_row(reading, IMPORT_RUNS);
    }
    if (strcmp(status_name, "PENDING") != 0) {
        return refuse_row(reading, IMPORT_STATE, NULL);
    }
    if (is_begun && !reading->rules->takes_begun) {
        return leave_row(reading, IMPORT_BEGUN);
    }
    if (request->workspace == NULL && (request->workspace = import_column_text(reading, "workspace_id")) == NULL) {
        return refuse_column(reading, "workspace_id");
    }
    if (!column_time(reading, "created_at", &request->run_at_us)) {
        return refuse_column(reading, "created_at");
    }
    if (!column_integer(reading, counter, &attempts)) {
        return refuse_column(reading, counter);
    }
    request->business_key = import_column_text(reading, "entity_id");
    enum weir_status status = note_origin(reading, is_begun, attempts, error);
    return status == WEIR_OK ? read_input(reading, error) : status;
}

/* The type by which --map finds the workflow: of an execution of Riven the id of its definition. */
static const char *type_of_row(const struct reading *reading)
{
    const char *job = import_column_text(reading, "job_type");
    if (reading->rules->system == IMPORT_NFLOW) {
        return import_column_text(reading, "type");
    }
    return job == NULL || strcmp(job, "WORKFLOW_EXECUTION") == 0 ? import_column_text(reading, "workflow_definition_id")
                                                                 : job;
}

/* Columns that both systems have: id, type, state, key. */
static enum weir_status import_read_common(struct reading *reading, struct weir_error *error)
{
    char key[KEY_BYTES_MAX * 4];
    const char *type = type_of_row(reading);
    const char *state = import_column_text(reading, "status");
    const struct import_rules *rules = reading->rules;
    struct enqueue_request *request = reading->request;
    reading->choice->type = arena_copy_string(reading->arena, type == NULL ? "-" : type);
    reading->choice->state = arena_copy_string(reading->arena, state == NULL ? "-" : state);
    if (reading->choice->type == NULL || reading->choice->state == NULL) {
        return error_out_of_memory(error);
    }
    if (reading->row->id == NULL || type == NULL || state == NULL) {
        return refuse_column(reading, reading->row->id == NULL ? "id" : type == NULL ? "of the type" : "status");
    }
    (void)snprintf(key, sizeof key, IMPORT_KEY_PREFIX "%s:%s", rules->system_name, reading->row->id);
    *request = (struct enqueue_request){
        .workspace = rules->workspace,
        .workflow = import_workflow_of(rules, reading->choice->type),
        .idempotency_key = arena_copy_string(reading->arena, key),
        .group = rules->executor_group,
        .default_group = rules->default_group,
    };
    if (request->idempotency_key == NULL) {
        return error_out_of_memory(error);
    }
    return rules->system == IMPORT_NFLOW ? read_nflow(reading, error) : read_riven(reading, error);
}

/* Moves the texts of the columns that the request refers to into the arena, because the columns are released. */
static bool keep_request_texts(struct reading *reading)
{
    struct enqueue_request *request = reading->request;
    const char **texts[] = {&request->workspace, &request->business_key};
    bool is_fine = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && is_fine; i++) {
        if (*texts[i] != NULL && (*texts[i])[0] == '\0') {
            *texts[i] = NULL; /* an empty business key is none */
        }
        is_fine = arena_keep_text(reading->arena, texts[i]);
    }
    return is_fine;
}

enum weir_status import_row_read(const struct import_row *row, const struct import_rules *rules, struct arena *arena,
                                 struct enqueue_request *ret_request, struct import_choice *ret_choice,
                                 struct weir_error *error)
{
    INVARIANT(row != NULL && rules != NULL && arena != NULL && ret_request != NULL && ret_choice != NULL);
    struct reading reading = {.row = row, .rules = rules, .arena = arena, .request = ret_request, .choice = ret_choice};
    *ret_choice = (struct import_choice){.outcome = IMPORT_ENQUEUED, .type = "-", .state = "-"};
    *ret_request = (struct enqueue_request){.workspace = NULL};
    if (row->columns == NULL) {
        return refuse_row(&reading, IMPORT_TOO_LARGE, NULL);
    }
    enum weir_status status = json_read(row->columns, row->columns_length, &reading.columns, NULL);
    if (status != WEIR_OK) {
        return status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(error)
                                            : refuse_row(&reading, IMPORT_UNREADABLE, "the row is no JSON of this program");
    }
    status = import_read_common(&reading, error);
    if (status == WEIR_OK && ret_choice->outcome == IMPORT_ENQUEUED && row->data_bytes > IMPORT_DATA_BYTES_MAX) {
        status = refuse_row(&reading, IMPORT_TOO_LARGE, NULL);
    }
    if (status == WEIR_OK && !keep_request_texts(&reading)) {
        status = error_out_of_memory(error);
    }
    json_decref(reading.details);
    json_decref(reading.columns);
    return status;
}
