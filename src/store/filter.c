/* Filters as texts. The reader of --where: KEY=VALUE pairs become a struct execution_filter; and back, for clients of a
 * server and for the record of acts.
 *
 * 1. The text is copied to the arena and cut there in place, pair by pair; a quoted value may hold blanks.
 * 2. The key is found in the table of names; a misspelt or foreign key gets the nearest one as a hint.
 * 3. The value is checked by the kind of the key: statuses, a time, an id, a pending reason, yes or no.
 *
 * A key that is given twice is an error, also by --workspace or --status, because all pairs must match. It makes no call
 * of the store: names are checked by verbs/store_pages.c. Pure; any thread.
 */
#include "store/filter.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"
#include "base/uuid.h"
#include "queue/name.h"
#include "store/labels.h"

enum filter_key {
    KEY_ID,
    KEY_WORKSPACE,
    KEY_WORKFLOW,
    KEY_EXECUTOR_GROUP,
    KEY_STATUS,
    KEY_PENDING_REASON,
    KEY_WAITING_FOR,
    KEY_PARENT,
    KEY_ERROR_CODE,
    KEY_IDEMPOTENCY_KEY,
    KEY_RETRIED,
    KEY_DISMISSED,
    KEY_STUCK,
    KEY_SINCE,
    KEY_UNTIL,
    KEY_FINISHED_BEFORE,
    KEY_BUSINESS_KEY,
    KEY_NODE,
    KEY_VERSION,
    KEY_LONGER_THAN,
    KEY_SHORTER_THAN,
    KEY_ERROR_TEXT,
    KEY_BUSINESS_KEY_PREFIX,
    KEY_COUNT
};

static const char *const key_names[KEY_COUNT] = {
    "id",         "workspace",          "workflow",        "executor_group", "status",    "pending_reason", "waiting_for",
    "parent",     "error_code",         "idempotency_key", "retried",        "dismissed", "stuck",          "since",
    "until",      "finished_before",    "business_key",    "node",           "version",   "longer_than",    "shorter_than",
    "error_text", "business_key_prefix"};

/* Before the name of a label: "label.customer-tier=gold". */
static const char LABEL_PREFIX[] = "label.";

/* A flag has dashes where the key has underscores: --error-code is error_code. */
const char *filter_key_of_flag(const char *flag)
{
    INVARIANT(flag != NULL);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        size_t at = 0;
        while (flag[at] != '\0' && (flag[at] == key_names[i][at] || (flag[at] == '-' && key_names[i][at] == '_'))) {
            at++;
        }
        if (flag[at] == '\0' && key_names[i][at] == '\0') {
            return key_names[i];
        }
    }
    return NULL;
}

/* The word for DISPATCHED that people use. */
static bool word_is_running(const char *word, size_t length)
{
    return length == strlen("running") && strncasecmp(word, "running", length) == 0;
}

/* "failed,cancelled" in any case, as bits. */
static enum weir_status filter_parse_statuses(const char *list, unsigned *ret_states, struct weir_error *error)
{
    unsigned states = 0;
    while (*list != '\0') {
        char word[64];
        enum item_state state;
        size_t length = strcspn(list, ",");
        (void)snprintf(word, sizeof word, "%.*s", (int)length, list);
        if (word_is_running(word, length)) {
            state = ITEM_DISPATCHED;
        } else if (!item_state_parse(word, &state)) {
            const char *names[ITEM_STATE_COUNT];
            char upper[64];
            for (unsigned i = 0; i < ITEM_STATE_COUNT; i++) {
                names[i] = item_state_name((enum item_state)i);
            }
            for (size_t i = 0; i < sizeof upper; i++) {
                upper[i] = (char)(word[i] >= 'a' && word[i] <= 'z' ? word[i] - 'a' + 'A' : word[i]);
            }
            const char *nearest = text_nearest(upper, names, ITEM_STATE_COUNT);
            error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a status", word);
            error_hint(error,
                       nearest != NULL ? "did you mean %s?"
                                       : "statuses are PENDING, CLAIMED, DISPATCHED, WAITING, COMPLETED, FAILED,"
                                         " CANCELLED",
                       nearest);
            return WEIR_INVALID_ARGUMENT;
        }
        states |= 1U << state;
        list += length + (list[length] == ',');
    }
    *ret_states = states;
    return WEIR_OK;
}

enum weir_status filter_parse_time(const char *key, const char *value, int64_t now_us, int64_t *ret_time_us,
                                   struct weir_error *error)
{
    INVARIANT(key != NULL && value != NULL && ret_time_us != NULL);
    int64_t back_us;
    enum weir_status status;
    if (duration_parse(value, &back_us, NULL) == WEIR_OK) {
        *ret_time_us = now_us - back_us;
        return WEIR_OK;
    }
    status = time_parse(value, now_us, ret_time_us, error);
    if (status != WEIR_OK) {
        error_prefix(error, "%s", key);
        error_hint(error, "a time looks like 2026-11-21T10:00:00Z; 1h means an hour ago");
    }
    return status;
}

/* Refuses a pending reason that is not in the closed list. */
static enum weir_status check_reason(const char *value, struct weir_error *error)
{
    const char *names[PENDING_REASON_COUNT];
    for (unsigned i = 0; i < PENDING_REASON_COUNT; i++) {
        names[i] = pending_reason_name((enum pending_reason)i);
        if (strcmp(names[i], value) == 0) {
            return WEIR_OK;
        }
    }
    const char *nearest = text_nearest(value, names, PENDING_REASON_COUNT);
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a pending reason", value);
    if (nearest != NULL) {
        error_hint(error, "did you mean %s?", nearest);
    } else {
        error_hint(error, "scheduled, ready, workspace_at_capacity, nodes_full, workspace_paused, queue_paused,"
                          " backing_off, engine_unreachable, no_node_in_group, no_node_for_engine, no_worker, no_scheduler,"
                          " handed_over, quarantined");
    }
    return WEIR_INVALID_ARGUMENT;
}

/* Refuses a kind of wait that does not exist. */
static enum weir_status check_wait(const char *value, struct weir_error *error)
{
    enum wait_kind kind;
    if (!wait_kind_parse(value, &kind)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a kind of wait", value);
        error_hint(error, "waiting_for is sleep, retry, signal, callback, approval, child or manual");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

/* Ids, reasons, yes and no are taken in any case. */
static void lower_ascii(char *value)
{
    for (; *value != '\0'; value++) {
        *value = (char)(*value >= 'A' && *value <= 'Z' ? *value - 'A' + 'a' : *value);
    }
}

/* Refuses a text that cannot be the beginning of an id. */
static enum weir_status check_id(const char *value, struct weir_error *error)
{
    if (strspn(value, "0123456789abcdef-") == strlen(value) && strlen(value) < UUID_TEXT_MAX) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not an execution id", value);
    error_hint(error, "give the id or its first characters; `weir list` shows them");
    return WEIR_INVALID_ARGUMENT;
}

/* A whole id: the rows of children have it so. */
static enum weir_status check_parent(const char *value, struct weir_error *error)
{
    if (uuid_is_valid(value)) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a whole execution id", value);
    error_hint(error, "`weir show` prints the whole id of the parent");
    return WEIR_INVALID_ARGUMENT;
}

/* Reads "yes" or "no". */
static enum weir_status parse_condition(enum filter_key key, const char *value, enum filter_condition *ret_condition,
                                        struct weir_error *error)
{
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "%s is yes or no, not \"%s\"", key_names[key], value);
        error_hint(error, key == KEY_STUCK       ? "stuck=yes matches executions that run longer than their stuck_after"
                          : key == KEY_DISMISSED ? "dismissed=no matches executions that were not dismissed"
                                                 : "retried=no matches executions that were not retried");
        return WEIR_INVALID_ARGUMENT;
    }
    *ret_condition = strcmp(value, "yes") == 0 ? CONDITION_YES : CONDITION_NO;
    return WEIR_OK;
}

/* One key, or the beginning of keys. They are two names and not a pattern, because a key that comes as data must never
 * match the executions of other keys. */
static enum weir_status set_business_key(enum filter_key key, struct execution_filter *filter, const char *value,
                                         struct weir_error *error)
{
    if (filter->business_key != NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is given beside another condition on the business key",
                         key_names[key]);
    }
    if (value[0] == '\0' || strlen(value) > BUSINESS_KEY_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s has 1 to %d bytes", key_names[key], BUSINESS_KEY_MAX);
    }
    /* The text is the caller's, as those of the other conditions are. */
    filter->business_key = value;
    filter->business_key_is_prefix = key == KEY_BUSINESS_KEY_PREFIX;
    return WEIR_OK;
}

/* "label.NAME=VALUE"; one name may be given once, because an execution has one value of it. The condition refers to the key
 * and the value, which live as long as the filter. */
static enum weir_status add_label_condition(struct execution_filter *filter, const char *key, char *value,
                                            struct weir_error *error)
{
    struct label_condition condition = {.name = key + strlen(LABEL_PREFIX), .value = value};
    if (!label_name_is_valid(condition.name)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%.80s\" is not the name of a label", condition.name);
        error_hint(error, "for example label.customer-tier=gold; a name has 1 to %d of a-z, 0-9, _, - and .",
                   LABEL_NAME_MAX);
        return WEIR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < filter->label_count; i++) {
        if (strcmp(filter->labels[i].name, condition.name) == 0) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "%s is given twice", key);
        }
    }
    if (filter->label_count == LABEL_CONDITIONS_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a filter has at most %d labels", LABEL_CONDITIONS_MAX);
    }
    size_t length = strlen(value);
    if (length > LABEL_VALUE_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is longer than %d bytes", key, LABEL_VALUE_MAX);
    }
    filter->labels[filter->label_count++] = condition;
    return WEIR_OK;
}

/* A whole number from 1 on. Versions are counted for each workflow, so the condition is of use beside one of a workflow. */
static enum weir_status parse_version(const char *value, int *ret_version, struct weir_error *error)
{
    int64_t number = 0;
    for (const char *at = value; *at >= '0' && *at <= '9' && number < INT32_MAX; at++) {
        number = number * 10 + (*at - '0');
    }
    if (strspn(value, "0123456789") != strlen(value) || number < 1 || number > INT32_MAX) {
        error_set(error, WEIR_INVALID_ARGUMENT, "version \"%.40s\" is not a whole number from 1 on", value);
        return WEIR_INVALID_ARGUMENT;
    }
    *ret_version = (int)number;
    return WEIR_OK;
}

/* A duration becomes a condition beside the present time, because an execution that runs has lasted until now. The time is
 * fixed here once, so that all pages of a list have the same one. */
static enum weir_status parse_duration_bound(enum filter_key key, const char *value, int64_t now_us,
                                             struct execution_filter *filter, struct weir_error *error)
{
    int64_t *bound = key == KEY_LONGER_THAN ? &filter->longer_than_us : &filter->shorter_than_us;
    enum weir_status status = duration_parse(value, bound, error);
    if (status != WEIR_OK) {
        error_prefix(error, "%s", key_names[key]);
        error_hint(error, "a duration looks like 250ms, 10s, 1h30m or 2d");
        return status;
    }
    if (*bound == 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is zero", key_names[key]);
    }
    filter->as_of_us = now_us;
    return WEIR_OK;
}

/* Sets one member of the filter. A member that is set already is an error, because all pairs must match. */
static enum weir_status set_filter_key(enum filter_key key, const char *value, int64_t now_us,
                                       struct execution_filter *filter, struct weir_error *error)
{
    const char **texts[KEY_COUNT] = {
        [KEY_ID] = &filter->id,
        [KEY_WORKSPACE] = &filter->workspace,
        [KEY_WORKFLOW] = &filter->workflow,
        [KEY_EXECUTOR_GROUP] = &filter->group,
        [KEY_PENDING_REASON] = &filter->reason,
        [KEY_WAITING_FOR] = &filter->waiting_for,
        [KEY_PARENT] = &filter->parent,
        [KEY_ERROR_CODE] = &filter->error_code,
        [KEY_IDEMPOTENCY_KEY] = &filter->idempotency_key,
        [KEY_NODE] = &filter->node,
        [KEY_ERROR_TEXT] = &filter->error_text,
    };
    int64_t *times[KEY_COUNT] = {
        [KEY_SINCE] = &filter->created_since_us,
        [KEY_UNTIL] = &filter->created_before_us,
        [KEY_FINISHED_BEFORE] = &filter->finished_before_us,
        [KEY_LONGER_THAN] = &filter->longer_than_us,
        [KEY_SHORTER_THAN] = &filter->shorter_than_us,
    };
    enum filter_condition *conditions[KEY_COUNT] = {
        [KEY_RETRIED] = &filter->retried,
        [KEY_DISMISSED] = &filter->dismissed,
        [KEY_STUCK] = &filter->stuck,
    };
    bool is_set = (texts[key] != NULL && *texts[key] != NULL) || (times[key] != NULL && *times[key] != 0) ||
                  (key == KEY_STATUS && filter->states != 0) || (key == KEY_VERSION && filter->version != 0) ||
                  (conditions[key] != NULL && *conditions[key] != CONDITION_ANY);
    if (is_set) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is given twice", key_names[key]);
    }
    if (key == KEY_STATUS) {
        return filter_parse_statuses(value, &filter->states, error);
    }
    if (conditions[key] != NULL) {
        return parse_condition(key, value, conditions[key], error);
    }
    if (key == KEY_VERSION) {
        return parse_version(value, &filter->version, error);
    }
    if (key == KEY_LONGER_THAN || key == KEY_SHORTER_THAN) {
        return parse_duration_bound(key, value, now_us, filter, error);
    }
    if (times[key] != NULL) {
        return filter_parse_time(key_names[key], value, now_us, times[key], error);
    }
    INVARIANT(texts[key] != NULL); /* the other keys were dealt with above */
    *texts[key] = value;
    switch (key) {
    case KEY_PENDING_REASON:
        return check_reason(value, error);
    case KEY_WAITING_FOR:
        return check_wait(value, error);
    case KEY_PARENT:
        return check_parent(value, error);
    case KEY_ID:
        return check_id(value, error);
    default:
        return WEIR_OK;
    }
}

/* Keys of other tools are known as synonyms. */
const char *filter_nearest_key(const char *name)
{
    INVARIANT(name != NULL);
    static const char *const synonyms[][2] = {{"state", "status"},
                                              {"group", "executor_group"},
                                              {"reason", "pending_reason"},
                                              {"error", "error_code"},
                                              {"error.type", "error_code"},
                                              {"tenant", "workspace"},
                                              {"ws", "workspace"},
                                              {"before", "until"},
                                              {"after", "since"},
                                              {"key", "idempotency_key"},
                                              {"correlation_key", "business_key"},
                                              {"duration", "longer_than"},
                                              {"error.message", "error_text"}};
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++) {
        if (strcmp(name, synonyms[i][0]) == 0) {
            return synonyms[i][1];
        }
    }
    return text_nearest(name, key_names, KEY_COUNT);
}

/* Finds the key, or names the nearest one in the hint. */
static enum weir_status find_filter_key(const char *word, enum filter_key *ret_key, struct weir_error *error)
{
    for (unsigned i = 0; i < KEY_COUNT; i++) {
        if (strcmp(word, key_names[i]) == 0) {
            *ret_key = (enum filter_key)i;
            return WEIR_OK;
        }
    }
    const char *nearest = filter_nearest_key(word);
    error_set(error, WEIR_INVALID_ARGUMENT, "a filter has no key \"%s\"", word);
    if (nearest != NULL) {
        error_hint(error, "did you mean %s?", nearest);
    } else {
        error_hint(error,
                   "keys: id workspace workflow executor_group status pending_reason waiting_for parent error_code "
                   "idempotency_key retried dismissed stuck since until finished_before business_key business_key_prefix "
                   "label.NAME node version longer_than shorter_than error_text");
    }
    return WEIR_INVALID_ARGUMENT;
}

/* Reads one pair at `*at`, moves behind it. Both parts are cut out of the caller's copy in place. */
static enum weir_status next_filter_pair(char **at, char **ret_key, char **ret_value, struct weir_error *error)
{
    char *key = *at;
    char *equals = key + strcspn(key, "= \t\n");
    if (*equals != '=' || equals == key) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a filter is KEY=VALUE ..., not \"%s\"", key);
        error_hint(error, "for example --where 'workspace=acme status=failed since=1h'");
        return WEIR_INVALID_ARGUMENT;
    }
    *equals = '\0';
    char *value = equals + 1;
    char quote = *value == '\'' || *value == '"' ? *value : '\0';
    char *end = quote != '\0' ? strchr(value + 1, quote) : value + strcspn(value, " \t\n");
    if (end == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the value of %s has no closing %c", key, quote);
    }
    value += quote != '\0';
    *at = *end != '\0' ? end + 1 : end;
    *end = '\0';
    if (value[0] == '\0') {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s= needs a value", key);
    }
    *ret_key = key;
    *ret_value = value;
    return WEIR_OK;
}

enum weir_status filter_set(struct execution_filter *filter, const char *key, char *value, int64_t now_us,
                            struct weir_error *error)
{
    INVARIANT(filter != NULL && key != NULL && value != NULL);
    enum filter_key found;
    if (strncmp(key, LABEL_PREFIX, strlen(LABEL_PREFIX)) == 0) {
        return add_label_condition(filter, key, value, error);
    }
    enum weir_status status = find_filter_key(key, &found, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (found == KEY_BUSINESS_KEY || found == KEY_BUSINESS_KEY_PREFIX) {
        return set_business_key(found, filter, value, error);
    }
    if (found == KEY_ID || found == KEY_PARENT || found == KEY_PENDING_REASON || found == KEY_WAITING_FOR ||
        found == KEY_RETRIED || found == KEY_DISMISSED || found == KEY_STUCK) {
        lower_ascii(value);
    }
    return set_filter_key(found, value, now_us, filter, error);
}

const char *filter_key(size_t index)
{
    return index < KEY_COUNT ? key_names[index] : NULL;
}

/* --- conditions as texts --- */

struct visitor {
    filter_visit *visit;
    void *context;
};

static void visit_text(const struct visitor *visitor, enum filter_key key, const char *value)
{
    if (value != NULL) {
        visitor->visit(visitor->context, key_names[key], value);
    }
}

static void visit_word(const struct visitor *visitor, enum filter_key key, enum filter_condition condition)
{
    visit_text(visitor, key, condition == CONDITION_ANY ? NULL : condition == CONDITION_YES ? "yes" : "no");
}

/* To the microsecond: a bound that is rounded would select other executions. */
static void visit_time(const struct visitor *visitor, enum filter_key key, int64_t time_us)
{
    char text[TIME_TEXT_MAX];
    if (time_us != 0) {
        time_format(time_us, text);
        visit_text(visitor, key, text);
    }
}

/* In whole milliseconds, as duration_parse() reads it. */
static void visit_duration(const struct visitor *visitor, enum filter_key key, int64_t duration_us)
{
    char text[DURATION_TEXT_MAX];
    if (duration_us != 0) {
        duration_format(duration_us, text);
        visit_text(visitor, key, text);
    }
}

static void visit_states(const struct visitor *visitor, unsigned states)
{
    char names[128] = "";
    for (int i = 0; i < ITEM_STATE_COUNT; i++) {
        size_t used = strlen(names);
        if ((states & 1U << i) != 0) {
            (void)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ",",
                           item_state_name((enum item_state)i));
        }
    }
    visit_text(visitor, KEY_STATUS, names[0] == '\0' ? NULL : names);
}

static void visit_labels(const struct visitor *visitor, const struct execution_filter *filter)
{
    for (size_t i = 0; i < filter->label_count; i++) {
        char key[sizeof LABEL_PREFIX + LABEL_NAME_MAX];
        (void)snprintf(key, sizeof key, "%s%s", LABEL_PREFIX, filter->labels[i].name);
        visitor->visit(visitor->context, key, filter->labels[i].value);
    }
}

void filter_each(const struct execution_filter *filter, filter_visit *visit, void *context)
{
    INVARIANT(filter != NULL && visit != NULL);
    const struct visitor visitor = {.visit = visit, .context = context};
    char version[16];
    (void)snprintf(version, sizeof version, "%d", filter->version);
    visit_text(&visitor, KEY_ID, filter->id);
    visit_text(&visitor, KEY_WORKSPACE, filter->workspace);
    visit_text(&visitor, KEY_WORKFLOW, filter->workflow);
    visit_text(&visitor, KEY_EXECUTOR_GROUP, filter->group);
    visit_states(&visitor, filter->states);
    visit_text(&visitor, KEY_PENDING_REASON, filter->reason);
    visit_text(&visitor, KEY_WAITING_FOR, filter->waiting_for);
    visit_text(&visitor, KEY_PARENT, filter->parent);
    visit_text(&visitor, KEY_ERROR_CODE, filter->error_code);
    visit_text(&visitor, KEY_IDEMPOTENCY_KEY, filter->idempotency_key);
    visit_word(&visitor, KEY_RETRIED, filter->retried);
    visit_word(&visitor, KEY_DISMISSED, filter->dismissed);
    visit_word(&visitor, KEY_STUCK, filter->stuck);
    visit_time(&visitor, KEY_SINCE, filter->created_since_us);
    visit_time(&visitor, KEY_UNTIL, filter->created_before_us);
    visit_time(&visitor, KEY_FINISHED_BEFORE, filter->finished_before_us);
    visit_text(&visitor, filter->business_key_is_prefix ? KEY_BUSINESS_KEY_PREFIX : KEY_BUSINESS_KEY, filter->business_key);
    visit_labels(&visitor, filter);
    visit_text(&visitor, KEY_NODE, filter->node);
    visit_text(&visitor, KEY_VERSION, filter->version == 0 ? NULL : version);
    visit_duration(&visitor, KEY_LONGER_THAN, filter->longer_than_us);
    visit_duration(&visitor, KEY_SHORTER_THAN, filter->shorter_than_us);
    visit_text(&visitor, KEY_ERROR_TEXT, filter->error_text);
}

static void note_condition(void *context, const char *key, const char *value)
{
    (void)key, (void)value;
    *(bool *)context = true;
}

/* Callers refuse an act with such a filter: a condition that was forgotten must not act on every execution. */
bool filter_is_empty(const struct execution_filter *filter)
{
    bool has_condition = false;
    filter_each(filter, note_condition, &has_condition);
    return !has_condition;
}

bool filter_copy_texts(struct execution_filter *filter, struct arena *arena)
{
    INVARIANT(filter != NULL && arena != NULL);
    const char **const texts[] = {&filter->id,           &filter->workspace,  &filter->workflow,
                                  &filter->group,        &filter->reason,     &filter->waiting_for,
                                  &filter->parent,       &filter->error_code, &filter->idempotency_key,
                                  &filter->business_key, &filter->node,       &filter->error_text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!arena_keep_text(arena, texts[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < filter->label_count; i++) {
        if (!arena_keep_text(arena, &filter->labels[i].name) || !arena_keep_text(arena, &filter->labels[i].value)) {
            return false;
        }
    }
    return true;
}

/* --- the reader --- */

bool filter_has_key(const char *name)
{
    if (strncmp(name, LABEL_PREFIX, strlen(LABEL_PREFIX)) == 0) {
        return true;
    }
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(name, key_names[i]) == 0) {
            return true;
        }
    }
    return false;
}

enum weir_status filter_parse(const char *where, int64_t now_us, struct arena *arena, struct execution_filter *filter,
                              struct weir_error *error)
{
    INVARIANT(where != NULL && arena != NULL && filter != NULL);
    if (strlen(where) > FILTER_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a filter is at most %d bytes long", FILTER_BYTES_MAX);
    }
    char *at = arena_copy_string(arena, where);
    if (at == NULL) {
        return error_out_of_memory(error);
    }
    size_t pairs = 0;
    for (at += strspn(at, " \t\n"); *at != '\0'; at += strspn(at, " \t\n"), pairs++) {
        char *key = NULL;
        char *value = NULL;
        enum weir_status status = next_filter_pair(&at, &key, &value, error);
        if (status == WEIR_OK) {
            status = filter_set(filter, key, value, now_us, error);
        }
        if (status != WEIR_OK) {
            return status;
        }
    }
    if (pairs == 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the filter is empty");
    }
    return WEIR_OK;
}

/* For a hint: the state is DISPATCHED, and only filters of commands know the other word. */
bool filter_status_says_running(const char *statuses)
{
    INVARIANT(statuses != NULL);
    while (*statuses != '\0') {
        size_t length = strcspn(statuses, ",");
        if (word_is_running(statuses, length)) {
            return true;
        }
        statuses += length + (statuses[length] == ',');
    }
    return false;
}

bool filter_says_running(const char *where, struct arena *arena)
{
    INVARIANT(where != NULL && arena != NULL);
    struct weir_error ignored = {.status = WEIR_OK};
    char *at = arena_copy_string(arena, where);
    char *key = NULL;
    char *value = NULL;
    while (at != NULL && *(at += strspn(at, " \t\n")) != '\0' && next_filter_pair(&at, &key, &value, &ignored) == WEIR_OK) {
        if (strcmp(key, key_names[KEY_STATUS]) == 0) {
            return filter_status_says_running(value);
        }
    }
    return false;
}

enum weir_status filter_set_workspace(struct execution_filter *filter, const char *workspace, struct weir_error *error)
{
    return set_filter_key(KEY_WORKSPACE, workspace, 0, filter, error);
}

enum weir_status filter_set_statuses(struct execution_filter *filter, const char *states, struct weir_error *error)
{
    return set_filter_key(KEY_STATUS, states, 0, filter, error);
}
