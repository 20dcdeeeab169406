/* The meaning of a row of another system: the request that it becomes, or the reason why it stays where it is.
 *
 *     struct import_row (store/import_source.h) --import_row_read()--> struct enqueue_request and struct import_choice
 *
 * A row is enqueued when it waits for its first start. Rows that have ended, that run, or that wait for something that only
 * the other system can give them stay there. Pure; one thread.
 */
#ifndef WEIR_CLI_VERBS_IMPORT_ROW_H
#define WEIR_CLI_VERBS_IMPORT_ROW_H

#include "base/arena.h"
#include "store/import_source.h"
#include "store/store.h"

enum import_outcome {
    IMPORT_ENQUEUED, /* or would be */
    IMPORT_KNOWN,    /* an earlier import has enqueued it */
    IMPORT_STAYS,    /* it is left to the other system */
    IMPORT_REFUSED   /* the row cannot be read, or the store refuses it */
};

/* Reasons of the reader; those of the store are names of weir/status.h. X(enum, code, sentence) */
#define IMPORT_REASON_LIST(X)                                                                                              \
    X(IMPORT_ENDED, "ended", "it has ended")                                                                               \
    X(IMPORT_RUNS, "runs", "the other system runs it: let it end there, or stop that system and repeat the import")        \
    X(IMPORT_BEGUN, "begun", "it has begun: let it end there, or --begun enqueues it from the first step")                 \
    X(IMPORT_WAITS, "waits", "it waits for a wake-up or a person there, and has no time of its own")                       \
    X(IMPORT_CHILD, "child", "another instance has started it and waits for it there")                                     \
    X(IMPORT_STATE, "unknown_state", "the state is none that this system has")                                             \
    X(IMPORT_UNREADABLE, "unreadable", "a column is missing, or has another type")                                         \
    X(IMPORT_TOO_LARGE, "too_large", "the columns or the data are too large")                                              \
    X(IMPORT_NAME_TAKEN, "name_taken", "it has a variable named import already, which --begun needs")

enum import_reason {
    IMPORT_NO_REASON,
#define IMPORT_REASON_ENUM(id, code, sentence) id,
    IMPORT_REASON_LIST(IMPORT_REASON_ENUM)
#undef IMPORT_REASON_ENUM
};

/* The prefix of the idempotency keys, in front of the system's name and the row's id. */
#define IMPORT_KEY_PREFIX "import:"

struct import_rules {
    enum import_system system;
    const char *system_name;    /* "nflow" */
    const char *workspace;      /* of all rows; NULL: of Riven the id of the workspace there */
    const char *executor_group; /* NULL = of the workflow */
    const char *default_group;  /* where neither names one */
    const char *const *maps;    /* "TYPE=WORKFLOW" */
    size_t map_count;
    bool takes_begun;
};

struct import_choice {
    enum import_outcome outcome;
    enum import_reason reason;
    const char *type;    /* "-" where the row has none */
    const char *state;   /* the same */
    const char *message; /* more than the sentence of the reason, as the name of a column; or NULL */
    bool is_cut;         /* the priority was out of the range of weir and was cut */
};

const char *import_reason_code(enum import_reason reason);
const char *import_reason_sentence(enum import_reason reason);
/* Texts live in the arena, or in the row. `ret_request` is filled when the outcome is IMPORT_ENQUEUED; its id is the
 * caller's. A row of any content is an answer; the only error is WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status import_row_read(const struct import_row *row, const struct import_rules *rules,
                                                 struct arena *arena, struct enqueue_request *ret_request,
                                                 struct import_choice *ret_choice, struct weir_error *error);

#endif
