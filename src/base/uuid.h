/* UUIDv7 (RFC 9562): the id of an execution, made when it is enqueued, the same on every surface.
 *
 * Ids of one source grow strictly, also within a millisecond and when the clock goes back. The 12 bits behind the time
 * are a counter, so "order by id" is the order of enqueueing of one process. */
#ifndef WEIR_BASE_UUID_H
#define WEIR_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

enum { UUID_TEXT_LENGTH = 36, UUID_TEXT_MAX = 37 };

/* No id is less than the one, or greater than the other. */
#define UUID_FIRST "00000000-0000-0000-0000-000000000000"
#define UUID_LAST "ffffffff-ffff-ffff-ffff-ffffffffffff"

/* Writes the next id of this process (any thread) for the given time. `to` holds UUID_TEXT_MAX bytes. */
void uuid_make(int64_t wall_us, char *to);
/* The same for what is no execution, as a request. It has a source of its own: the wall clock of a process may be years
 * ahead for a moment, and each later id of the source stays ahead. Ids of executions are of store time, since lists go by
 * them. */
void uuid_make_beside(int64_t wall_us, char *to);
/* A source of its own with a random part from a seed, for the simulation. One thread at a time. */
struct uuid_source {
    uint64_t last; /* 48 bits of milliseconds, 12 bits of counter */
    uint64_t random_state;
    bool seeded;
};
void uuid_make_from(struct uuid_source *source, int64_t wall_us, char *to);
/* True for 8-4-4-4-12 hex digits, any version; upper case is accepted. */
bool uuid_is_valid(const char *text);
/* The same, and of version 7: the id that the caller of an enqueue may give, since lists go by the order of ids. */
bool uuid_is_valid_v7(const char *text);
/* Writes a valid id in small letters, as all stores have it. */
void uuid_write_small(const char *id, char to[UUID_TEXT_MAX]);

#endif
