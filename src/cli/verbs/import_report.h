/* The report of an import: its rows, counted by type, state and outcome. */
#ifndef WEIR_CLI_VERBS_IMPORT_REPORT_H
#define WEIR_CLI_VERBS_IMPORT_REPORT_H

#include <jansson.h>

#include "cli/output/output.h"
#include "cli/verbs/import_row.h"

/* Lines of the report; what has no line of its own is counted in the last one. */
enum { IMPORT_LINES_MOST = 1000, IMPORT_TEXT_MAX = 200 };

struct import_line {
    uint64_t hash;
    char type[WORKFLOW_NAME_MAX + 1];
    char state[WORKFLOW_NAME_MAX + 1];
    char reason[WORKFLOW_NAME_MAX + 1];  /* a name; "" = none */
    char message[IMPORT_TEXT_MAX];       /* of the first row */
    char example[WORKFLOW_NAME_MAX + 1]; /* the id of the first row */
    enum import_outcome outcome;
    int64_t count;
};

struct import_report {
    struct import_line lines[IMPORT_LINES_MOST];
    size_t line_count;
    int64_t totals[IMPORT_REFUSED + 1]; /* by outcome */
    int64_t cut;                        /* rows whose priority was cut to the range of weir */
};

/* `reason` and `message`: of the store, or those of the choice. `id` may be NULL. */
void import_report_add(struct import_report *report, const struct import_choice *choice, const char *reason,
                       const char *message, const char *id, int64_t count);
/* The whole report as data: {"items": [...], "enqueued", "duplicates", "skipped", "refused", "dry_run"}. NULL = out of
 * memory. */
json_t *import_report_json(const struct import_report *report, bool is_dry_run);
/* A table of it on stdout. `page` is import_report_json(). */
void import_report_print(struct output *output, const json_t *page);

#endif
