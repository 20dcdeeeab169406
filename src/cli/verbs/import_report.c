/* Counts the rows of an import, and prints them.
 *
 * A line is one type, state, outcome and reason. It keeps the id and the message of its first row as an example. Other rows
 * of the line differ in the id alone, or in a value that the message names. The lines have a bound, because types are
 * names of another system and may be as many as its rows. A line is found by a hash of its texts. One thread.
 */
#include "cli/verbs/import_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/output/table.h"

static const char *const outcome_names[] = {
    [IMPORT_ENQUEUED] = "enqueued", [IMPORT_KNOWN] = "duplicate", [IMPORT_STAYS] = "stays", [IMPORT_REFUSED] = "refused"};

static bool is_same_line(const struct import_line *a, const struct import_line *b)
{
    return a->hash == b->hash && a->outcome == b->outcome && strcmp(a->type, b->type) == 0 &&
           strcmp(a->state, b->state) == 0 && strcmp(a->reason, b->reason) == 0;
}

/* The line of these texts, perhaps a new one; the last line stands for all that have no room. */
static struct import_line *line_of(struct import_report *report, const struct import_line *wanted)
{
    for (size_t i = 0; i < report->line_count; i++) {
        if (is_same_line(&report->lines[i], wanted)) {
            return &report->lines[i];
        }
    }
    if (report->line_count < IMPORT_LINES_MOST - 1) {
        report->lines[report->line_count] = *wanted;
        return &report->lines[report->line_count++];
    }
    struct import_line *last = &report->lines[IMPORT_LINES_MOST - 1];
    if (report->line_count < IMPORT_LINES_MOST) {
        *last = (struct import_line){.type = "(others)", .state = "-", .outcome = wanted->outcome};
        report->line_count = IMPORT_LINES_MOST;
    }
    return last;
}

void import_report_add(struct import_report *report, const struct import_choice *choice, const char *reason,
                       const char *message, const char *id, int64_t count)
{
    INVARIANT(report != NULL && choice != NULL && choice->outcome <= IMPORT_REFUSED);
    struct import_line wanted = {.outcome = choice->outcome};
    const char *name = reason != NULL ? reason : import_reason_code(choice->reason);
    const char *text = message != NULL ? message : choice->message;
    text_copy(wanted.type, sizeof wanted.type, choice->type);
    text_copy(wanted.state, sizeof wanted.state, choice->state);
    text_copy(wanted.reason, sizeof wanted.reason, name);
    text_copy(wanted.message, sizeof wanted.message, text != NULL ? text : import_reason_sentence(choice->reason));
    text_copy(wanted.example, sizeof wanted.example, id == NULL ? "" : id);
    text_make_safe(wanted.type);
    text_make_safe(wanted.state);
    text_make_safe(wanted.message);
    text_make_safe(wanted.example);
    wanted.hash = text_hash(wanted.type) + 31 * text_hash(wanted.state) + 7 * text_hash(wanted.reason);
    line_of(report, &wanted)->count += count;
    report->totals[choice->outcome] += count;
    report->cut += choice->is_cut && choice->outcome == IMPORT_ENQUEUED ? count : 0;
}

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

json_t *import_report_json(const struct import_report *report, bool is_dry_run)
{
    INVARIANT(report != NULL);
    json_t *items = json_array();
    bool is_fine = items != NULL;
    for (size_t i = 0; i < report->line_count && is_fine; i++) {
        const struct import_line *line = &report->lines[i];
        json_t *item = json_pack("{s:s, s:s, s:I, s:s, s:s?, s:s?, s:s?}", "type", line->type, "source_state", line->state,
                                 "count", (json_int_t)line->count, "outcome", outcome_names[line->outcome], "reason",
                                 text_or_null(line->reason), "message", text_or_null(line->message), "source_id",
                                 text_or_null(line->example));
        is_fine = item != NULL && json_array_append_new(items, item) == 0;
    }
    if (!is_fine) {
        json_decref(items);
        return NULL;
    }
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:b}", "items", items, "enqueued",
                     (json_int_t)report->totals[IMPORT_ENQUEUED], "duplicates", (json_int_t)report->totals[IMPORT_KNOWN],
                     "skipped", (json_int_t)report->totals[IMPORT_STAYS], "refused",
                     (json_int_t)report->totals[IMPORT_REFUSED], "priority_cut", (json_int_t)report->cut, "dry_run",
                     (int)is_dry_run);
}

void import_report_print(struct output *output, const json_t *page)
{
    static const struct column columns[] = {
        {.title = "TYPE", .least = 8},
        {.title = "STATE", .least = 6},
        {.title = "COUNT", .align = COLUMN_RIGHT},
        {.title = "OUTCOME"},
        {.title = "REASON", .least = 8},
        {.title = "FIRST", .least = 6},
        {.title = "MESSAGE", .least = 8},
    };
    static const char *const keys[] = {"type", "source_state", "count", "outcome", "reason", "source_id", "message"};
    _Static_assert(sizeof keys / sizeof keys[0] == sizeof columns / sizeof columns[0], "a key for each column");
    INVARIANT(page != NULL);
    table_print_rows(output, columns, keys, sizeof keys / sizeof keys[0], json_object_get(page, "items"));
}
