/* An act of a person on executions: cancel, retry, release, wake, dismiss, purge, signal, migrate. The rules around
 * store_bulk() that the command line and the HTTP API share: which executions match, what a dry run reports, and the answer
 * for one of them.
 *
 *     bulk_act_complete_filter() -> bulk_act_count() -> bulk_act_expect() -> bulk_act_rehearse() or store_bulk() in chunks
 *
 * Threads: that of the handle.
 */
#ifndef WEIR_STORE_BULK_ACT_H
#define WEIR_STORE_BULK_ACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* One transaction of a bulk act: a large one would hold its locks for long. */
enum { BULK_CHUNK = 500, MIGRATIONS_REHEARSED_MOST = 20 * BULK_CHUNK };

/* The act of that name, one of bulk_act_name(). WEIR_INVALID_ARGUMENT; `name` may be NULL. */
WEIR_MUST_CHECK enum weir_status bulk_act_parse(const char *name, enum bulk_act *ret_act, struct weir_error *error);
/* The states in which the act is legal, as bits 1 << enum item_state. */
unsigned bulk_act_states(enum bulk_act act);

/* Writes the whole id of the execution that `id` or its first characters name; `to` holds UUID_TEXT_MAX bytes. A whole id
 * is not looked up. WEIR_EXECUTION_NOT_FOUND, WEIR_INVALID_ARGUMENT: too short, or of several. */
WEIR_MUST_CHECK enum weir_status execution_complete_id(struct store *store, const char *id, char *to,
                                                       struct weir_error *error);

/* Whether a wake can end the waits of this kind, the name of a wait_kind; NULL = those that it ends without a kind. It can
 * never end a wait for an approval: with a default that would be the decision of an actor who may not decide.
 * WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status bulk_act_check_wait(const char *waits_for, struct weir_error *error);

/* Whether a wake with this filter can change anything. Without a kind it ends no wait for a signal, a report or an
 * approval, and would refuse all that match. Fine for every other act. WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status bulk_act_check_waits(enum bulk_act act, const struct act_order *order,
                                                      const struct execution_filter *filter, struct weir_error *error);

/* The rules of a signal to many: those of a single one (store/signals.h), and it needs a key. WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status bulk_act_check_signal(const struct act_order *order, struct weir_error *error);

/* A migration needs a version, and by filter the name of the workflow: versions of two workflows have nothing in common.
 * WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status bulk_act_check_migration(const struct act_order *order,
                                                          const struct execution_filter *filter, struct weir_error *error);

struct bulk_matches {
    int64_t matched;
    bool is_exact;   /* false: more may match, because the count has ended before the list */
    int64_t refused; /* of them, those whose state does not allow the act; set by bulk_act_rehearse() */
    int64_t retried; /* of the refused ones, those that were retried already */
};
/* Without a condition on the state: the states that allow the act. Without an upper bound of the time: `now_us`, so that
 * executions that a retry makes never match the same act. */
void bulk_act_complete_filter(enum bulk_act act, int64_t now_us, struct execution_filter *filter);
/* Counts the executions that match. */
WEIR_MUST_CHECK enum weir_status bulk_act_count(struct store *store, const struct execution_filter *filter,
                                                struct bulk_matches *ret_matches, struct weir_error *error);
/* WEIR_CONFLICT: another number matches. `expected` < 0: any number is right. */
WEIR_MUST_CHECK enum weir_status bulk_act_expect(const struct bulk_matches *matches, int64_t expected,
                                                 struct weir_error *error);
/* Counts the matches that the act would refuse. `matches` comes from bulk_act_count() with the same filter. A migration
 * looks at each match, so its dry run takes as long as a read of all of them. */
WEIR_MUST_CHECK enum weir_status bulk_act_rehearse(struct store *store, enum bulk_act act, const struct act_order *order,
                                                   const struct execution_filter *filter, struct bulk_matches *matches,
                                                   struct weir_error *error);
/* Whether the present state of one execution allows the act; the refusals of store_bulk_one(). */
WEIR_MUST_CHECK enum weir_status bulk_act_rehearse_one(struct store *store, enum bulk_act act,
                                                       const struct act_order *order, const char *id,
                                                       struct weir_error *error);

/* {"id", "act"}, of a cancel also "cancel_requested", of a retry "new_id"; NULL: no memory. `result`: of store_bulk_one().
 */
json_t *bulk_act_item(enum bulk_act act, const struct bulk_result *result);
/* The counts of an act or of its dry run: {"act", "matched", "matched_is_exact", "changed", "refused", "dry_run"}, of a
 * cancel that was done also "requested"; NULL: no memory. */
json_t *bulk_act_summary(enum bulk_act act, const struct bulk_matches *matches, int64_t changed, int64_t requested,
                         bool is_dry_run);

#endif
