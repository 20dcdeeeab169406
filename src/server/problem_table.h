/* Every code of a problem (RFC 9457): its status, its meaning and the remedy. The pages under /docs/problems/, docs/http.md
 * and the list of codes in /openapi.json are made from it. Static. */
#ifndef WEIR_SERVER_PROBLEM_TABLE_H
#define WEIR_SERVER_PROBLEM_TABLE_H

#include <stddef.h>

struct problem_kind {
    const char *code; /* NULL ends the table */
    int status;       /* of the answer; of codes with several, the most frequent one */
    const char *meaning;
    const char *remedy;
};

/* In the order of their statuses; ended by one without a code. */
const struct problem_kind *problem_table(void);
/* NULL: there is none of the name. */
const struct problem_kind *problem_find(const char *code);

#endif
