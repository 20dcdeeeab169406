/* Reports that the store left out of a set, because another transaction had locked their rows. Thread: the record loop. */
#ifndef WEIR_DISPATCH_BLOCKED_REPORTS_H
#define WEIR_DISPATCH_BLOCKED_REPORTS_H

#include "dispatch/node.h"

/* Takes out of a set of new reports those whose execution has blocked reports: they wait behind these. */
void blocked_keep_order(struct node *node, int64_t now_us);
/* When there is a set of blocked reports to be tried; TIME_NEVER without any. */
int64_t blocked_next_us(const struct node *node, int64_t now_us);
/* Fills the present set, which is empty, with the next reports of the round, and begins a round if none is under way. The
 * set may stay empty. */
void blocked_take_set(struct node *node, int64_t now_us);
/* The store has refused the rows of a report: sets its next time. blocked_add() follows. True when it is to be reported:
 * the first time, and then once a minute. */
bool blocked_refuse(struct report *report, int64_t now_us);
/* Takes a report of the present set that the store left out. */
void blocked_add(struct node *node, struct report *report, int64_t now_us);
/* A report of the present set was not left out. Call it before its execution may be forgotten. */
void blocked_remove(struct node *node, const struct report *report);
/* The present set is settled. */
void blocked_end_set(struct node *node, int64_t now_us);
/* Frees all. */
void blocked_drop(struct node *node);

#endif
