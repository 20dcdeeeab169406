/* Whether a node reaches its engine: the breaker before starts, and the engine's own reports about itself. Threads: any. */
#ifndef WEIR_DISPATCH_ENGINE_HEALTH_H
#define WEIR_DISPATCH_ENGINE_HEALTH_H

#include "dispatch/node.h"

/* The state of the engine as a heartbeat reports it. */
struct engine_condition {
    bool is_reachable;
    bool is_impaired;
    char error[WEIR_ERROR_MESSAGE_MAX]; /* "" = none */
};

/* A report of the engine has arrived at its turn; most kinds change nothing. Emits an event on a change, and requests a
 * heartbeat, so that the store learns of it. */
void engine_health_note(struct node *node, const struct report *report);
/* False while the breaker holds all starts back, the probe included. */
bool engine_health_allows_start(struct node *node, int64_t now_us);
/* How many of `wanted` starts the breaker lets through. Does not use up the probe. */
size_t engine_health_allowance(struct node *node, size_t wanted, int64_t now_us);
/* The boot time after now_us at which the breaker lets a probe through; TIME_NEVER = none. */
int64_t engine_health_probe_us(struct node *node, int64_t now_us);
/* Starts that the dispatcher is about to send. While the breaker is not closed, they are the probe. */
void engine_health_use(struct node *node, size_t starts, int64_t now_us);
void engine_health_read(struct node *node, struct engine_condition *ret_condition);

#endif
