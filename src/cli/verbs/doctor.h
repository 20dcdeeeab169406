/* One run of `weir doctor`, shared by the files of its checks. One thread. */
#ifndef WEIR_CLI_VERBS_DOCTOR_H
#define WEIR_CLI_VERBS_DOCTOR_H

#include <jansson.h>

#include "cli/output/output.h"
#include "cli/verbs/verb.h"
#include "store/store.h"

struct doctor {
    struct invocation *invocation;
    struct store *store;
    int64_t now_us;
    json_t *status;
    json_t *items; /* for json */
    int problems;
    int warnings;
};

/* Reports one check: a line, or an item of the answer in JSON. `format` gives a sentence that ends with the remedy. */
void report_check(struct doctor *doctor, enum sign sign, const char *check, const char *format, ...) WEIR_PRINTF(4, 5);

/* Checks that nodes are alive, accept work, have the handlers and agree on where executions run; and the scheduler. */
WEIR_MUST_CHECK enum weir_status doctor_check_nodes(struct doctor *doctor, struct weir_error *error);
/* Checks that living executions have a node that reaches their service. */
WEIR_MUST_CHECK enum weir_status doctor_check_targets(struct doctor *doctor, struct weir_error *error);

#endif
