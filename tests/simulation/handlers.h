/* Fleets whose workflows need different handlers, and whose nodes have different ones: the model of both, and its checks
 * (handlers.c). */
#ifndef WEIR_TESTS_SIMULATION_HANDLERS_H
#define WEIR_TESTS_SIMULATION_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct change;
struct model_item;
struct model_lane;
struct simulated_node;
struct simulation;

/* Sets of handlers are bits. A fleet without such workflows needs none, and its nodes count as having all. */
enum { HANDLERS_SIMULATED = 4, HANDLERS_ALL = (1 << HANDLERS_SIMULATED) - 1, HANDLERS_TEXT_MAX = 64, HANDLER_NEEDS = 6 };

/* The sets to which the nodes return when all is calm. */
void handlers_draw_homes(struct simulation *simulation);
/* Publishes the workflows. */
void handlers_prepare(struct simulation *simulation);
/* A workflow of a request, or NULL = any other. */
const char *handlers_draw_workflow(struct simulation *simulation);
/* The handlers of a node that starts. */
void handlers_begin_node(struct simulation *simulation, struct simulated_node *node);
void handlers_open_engine(const struct simulated_node *node);
/* A node loses one or gets one. */
void handlers_act(struct simulation *simulation);
/* All is calm: each node gets the handlers of its home. Call it again and again: the last one comes later. */
void handlers_settle(struct simulation *simulation);

void handlers_note_lane(struct simulation *simulation, struct model_lane *lane);
/* After the item has appeared in its lane. */
void handlers_note_item(struct simulation *simulation, struct model_item *item);
/* A row of a node: its handlers on record, and whether it lives. */
void handlers_note_node(struct simulation *simulation, const struct change *change);
/* The item was given to the node: the node has its handlers on record. */
void handlers_check_claim(struct simulation *simulation, const struct model_item *item, int64_t node_id);
/* On record; of a node without a row: all. */
unsigned handlers_on_record(const struct simulation *simulation, int64_t node_id);
/* The same nodes can serve both lanes, and the last round of the scheduler that acts has read that. */
bool handlers_share(const struct simulation *simulation, const struct model_lane *left, const struct model_lane *right);

#endif
