/* Facts for the scheduler (queue/scheduler.h), read from the tables: from the news, and from the state of groups and
 * nodes. The first round of an epoch reads the whole.
 *
 * The scheduler's id of an item is the number of its row, in the first eight bytes with the highest byte first. So the
 * order of (rank, id) is the order of the index, and an assignment finds its row without looking for its id.
 */
#ifndef WEIR_STORE_SQLITE_FACTS_H
#define WEIR_STORE_SQLITE_FACTS_H

#include "store/sqlite/sqlite_store.h"

struct facts {
    struct connection *connection; /* with an open transaction */
    struct arena *arena;
    struct schedule_fact *items;
    size_t count;
    size_t capacity;
    bool failed; /* out of memory */
    struct schedule_fact spare;
};

/* The row number of an item in the form of an id of the scheduler, and back. */
void facts_write_id(int64_t number, uint8_t *id);
/* The row number in such an id. */
int64_t facts_read_id(const uint8_t *id);

/* A new fact, to be filled. Never NULL; facts_end() reports that memory ran out. */
struct schedule_fact *facts_add(struct facts *facts, enum schedule_fact_kind kind);
enum weir_status facts_end(const struct facts *facts, enum weir_status status, struct weir_error *error);

/* The news behind *position, which moves; at most NEWS_BATCH_MOST rows. *ret_acts: an act is among them, or among those
 * that are left. */
enum weir_status facts_of_news(struct facts *facts, int64_t *position, bool *ret_acts, bool *ret_more,
                               struct weir_error *error);
/* The queue, groups and nodes. */
enum weir_status facts_of_state(struct facts *facts, int64_t now_us, struct weir_error *error);
/* Held items without a node. */
enum weir_status facts_of_handovers(struct facts *facts, struct weir_error *error);
/* The held items, and the lanes with runnable items. With facts_of_state() and facts_of_handovers(): all facts. */
enum weir_status facts_of_lanes(struct facts *facts, struct weir_error *error);

#endif
