/* UUIDs of version 7 (RFC 9562): 48 bits of milliseconds, 12 bits that count within one, 62 random bits.
 *
 * Ids of one process ascend strictly, also when the clock goes back: the time part is at least the last one plus one. So
 * ids of one producer sort by time, which keeps inserts at one end of an index. One lock protects the two sources of the
 * process, of executions and of all else; a seeded source, for tests, belongs to its owner. Random bits come from the
 * kernel, 256 ids at a time.
 *
 * A child of fork() drops the bits that its parent fetched. Otherwise both would make the same id in one millisecond, and
 * the store would take the second enqueue for a repetition of the first.
 */
#include "base/uuid.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/random.h"

enum { POOL_BYTES = 2048 };

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static struct uuid_source process_source;
static struct uuid_source source_beside;

static uint64_t pool[POOL_BYTES / sizeof(uint64_t)];
static size_t pool_left;

/* A call to the kernel for each id would cost more than the rest of the id. Used values are wiped. */
static uint64_t pooled_random(void)
{
    if (pool_left == 0) {
        if (getrandom(pool, sizeof pool, 0) != (ssize_t)sizeof pool) {
            struct random fallback;
            random_seed_from_system(&fallback);
            for (size_t i = 0; i < sizeof pool / sizeof pool[0]; i++) {
                pool[i] = random_next(&fallback);
            }
        }
        pool_left = sizeof pool / sizeof pool[0];
    }
    pool_left--;
    uint64_t value = pool[pool_left];
    pool[pool_left] = 0;
    return value;
}

/* --- fork(): the lock is held over it, so that the child finds it free --- */

static void lock_before_fork(void)
{
    (void)pthread_mutex_lock(&process_lock);
}

static void unlock_in_parent(void)
{
    (void)pthread_mutex_unlock(&process_lock);
}

static void unlock_in_child(void)
{
    pool_left = 0;
    (void)pthread_mutex_unlock(&process_lock);
}

static void uuid_watch_forks(void)
{
    (void)pthread_atfork(lock_before_fork, unlock_in_parent, unlock_in_child);
}

static void put_hex(char *to, uint64_t value, int digits)
{
    static const char hex[] = "0123456789abcdef";
    for (int i = digits - 1; i >= 0; i--) {
        to[i] = hex[value & 15];
        value >>= 4;
    }
}

void uuid_make_from(struct uuid_source *source, int64_t wall_us, char *to)
{
    uint64_t time = wall_us > 0 ? ((uint64_t)wall_us / 1000) << 12 : 0;
    source->last = time > source->last ? time : source->last + 1;
    uint64_t tail;
    if (source->seeded) {
        struct random random = {source->random_state};
        tail = random_next(&random);
        source->random_state = random.state;
    } else {
        tail = pooled_random();
    }
    put_hex(to, source->last >> 28, 8);
    to[8] = '-';
    put_hex(to + 9, source->last >> 12, 4);
    to[13] = '-';
    put_hex(to + 14, 0x7000 | (source->last & 0xFFF), 4);
    to[18] = '-';
    put_hex(to + 19, 0x8000 | ((tail >> 48) & 0x3FFF), 4);
    to[23] = '-';
    put_hex(to + 24, tail, 12);
    to[UUID_TEXT_LENGTH] = '\0';
}

static void make_locked(struct uuid_source *source, int64_t wall_us, char *to)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, uuid_watch_forks);
    (void)pthread_mutex_lock(&process_lock);
    uuid_make_from(source, wall_us, to);
    (void)pthread_mutex_unlock(&process_lock);
}

void uuid_make(int64_t wall_us, char *to)
{
    make_locked(&process_source, wall_us, to);
}

void uuid_make_beside(int64_t wall_us, char *to)
{
    make_locked(&source_beside, wall_us, to);
}

bool uuid_is_valid(const char *text)
{
    for (int i = 0; i < UUID_TEXT_LENGTH; i++) {
        char c = text[i];
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (dash ? c != '-' : !hex) {
            return false;
        }
    }
    return text[UUID_TEXT_LENGTH] == '\0';
}

bool uuid_is_valid_v7(const char *text)
{
    enum { VERSION_AT = 14 };
    return uuid_is_valid(text) && text[VERSION_AT] == '7';
}

void uuid_write_small(const char *id, char to[UUID_TEXT_MAX])
{
    INVARIANT(uuid_is_valid(id) && to != NULL);
    for (int i = 0; i < UUID_TEXT_MAX; i++) {
        to[i] = (char)(id[i] >= 'A' && id[i] <= 'F' ? id[i] - 'A' + 'a' : id[i]);
    }
}
