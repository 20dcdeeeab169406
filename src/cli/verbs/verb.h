/* The parts that all verbs share: the store of the call, lists of rows, the record of a change.
 *
 * A verb (verb_NAME.c)
 * - gets its values from the invocation_...() functions, which return checked values;
 * - writes data with output_...() to stdout and messages to stderr (output.h), never with printf;
 * - returns a status and fills `error`; main prints "weir: MESSAGE (CODE)" and the hint, and exits with
 *   weir_status_exit(). A status with an empty message means that the verb has printed the message already.
 *
 * Threads: one.
 */
#ifndef WEIR_CLI_VERBS_VERB_H
#define WEIR_CLI_VERBS_VERB_H

#include <jansson.h>

#include "cli/arguments/invocation.h"
#include "cli/output/output.h"
#include "store/store.h"

/* The access that a verb needs to its store. */
enum store_use {
    STORE_READ,   /* read only */
    STORE_CHANGE, /* must exist and have the right schema */
    STORE_MEND,   /* must exist, any schema: store migrate, check, plan, doctor */
    STORE_CREATE  /* made when missing, any schema: store init, dev, demo */
};

/* Opens the store that --store, WEIR_STORE or weir.yaml names, with --timeout as the deadline of its calls (not for
 * `wait`). Acts of the handle are on record as those of this user, with --reason. A store that is not there:
 * WEIR_STORE_UNREACHABLE with the command that makes one as the hint. */
WEIR_MUST_CHECK enum weir_status verb_open_store(const struct invocation *invocation, enum store_use use,
                                                 struct store **ret_store, struct weir_error *error);

/* The part of a verb that has the store open. */
typedef enum weir_status verb_act(struct invocation *invocation, struct store *store, struct weir_error *error);
/* Opens the store, calls `act`, closes the store. */
WEIR_MUST_CHECK enum weir_status verb_with_store(struct invocation *invocation, enum store_use use, verb_act *act,
                                                 struct weir_error *error);

/* A verb that lists the rows of one kind. */
struct list_view {
    enum store_list_kind kind;
    /* Prints the table; called for a page with rows, and for an empty one when `empty` is NULL. `now_us`: store time. */
    void (*print)(struct output *output, const json_t *page, int64_t now_us);
    /* Changes the page before it is printed; NULL = nothing to change. */
    enum weir_status (*adjust)(const struct invocation *invocation, struct store *store, json_t *page,
                               struct weir_error *error);
    const char *empty;  /* the message for a page without rows */
    const char *prefix; /* rows whose names begin with it; NULL = all */
};
/* Reads all rows and prints them as JSON or as the view's table. */
WEIR_MUST_CHECK enum weir_status verb_print_list(struct invocation *invocation, struct store *store,
                                                 const struct list_view *view, struct weir_error *error);

/* The flag --max-pending as the member of a change, and that member in the output; null = not changed. */
int64_t verb_pending_change(const struct invocation *invocation);
json_t *verb_pending_limit(int64_t change);
/* The change of the command, made or planned, for -o json and jsonl: {"act": its name, FACTS..., "dry_run": bool} on
 * stdout. In a table the verb prints it on stderr, and nothing is printed here. Releases `facts`; NULL = out of memory. */
WEIR_MUST_CHECK enum weir_status verb_print_act(const struct invocation *invocation, json_t *facts,
                                                struct weir_error *error);

#endif
