/* The change of an act as a text, and the acts that explain the pauses of a status. One thread. */
#ifndef WEIR_CLI_VERBS_ACT_CHANGE_H
#define WEIR_CLI_VERBS_ACT_CHANGE_H

#include "cli/verbs/verb.h"

enum { ACT_CHANGE_TEXT_MAX = 512 };

/* "plan free -> pro, paused false -> true"; of a setting that was made "plan free, ..."; "unchanged"; "deleted". `before`
 * and `after`: objects, or NULL or JSON null for none; both none is "". It is cut when it does not fit. */
void act_change_text(const json_t *before, const json_t *after, char to[ACT_CHANGE_TEXT_MAX]);
/* The text of the last change of the handle. */
void act_last_change_text(const struct store *store, char to[ACT_CHANGE_TEXT_MAX]);

/* Adds "pauses" to a status: for the queue, each group and each workspace in it that is paused {"subject", "actor", "at",
 * "reason"} of its last pause on record. A pause that no act explains is left out. */
WEIR_MUST_CHECK enum weir_status act_add_pauses(struct store *store, json_t *status_json, struct weir_error *error);
/* " by ada(1000)@host, 5m ago: the reason", or "" when no act explains the pause of this subject. Valid until the next
 * call. */
const char *act_pause_text(struct output *output, const json_t *status_json, const char *subject, int64_t now_us);

#endif
