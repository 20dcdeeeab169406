#include "base/uuid.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "base/random.h"

enum { POOL_BYTES = 2048 };

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static struct uuid_source process_source;

/* One call to the kernel fills the pool for 256 ids: a call per id would cost more than the rest of the id. */
static uint64_t pooled_random(void)
{
    static uint64_t pool[POOL_BYTES / sizeof(uint64_t)];
    static size_t left;
    if (left == 0) {
        if (getrandom(pool, sizeof pool, 0) != (ssize_t)sizeof pool) {
            struct random fallback;
            random_seed_from_system(&fallback);
            for (size_t i = 0; i < sizeof pool / sizeof pool[0]; i++) {
                pool[i] = random_next(&fallback);
            }
        }
        left = sizeof pool / sizeof pool[0];
    }
    left--;
    uint64_t value = pool[left];
    pool[left] = 0;
    return value;
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

void uuid_make(int64_t wall_us, char *to)
{
    (void)pthread_mutex_lock(&process_lock);
    uuid_make_from(&process_source, wall_us, to);
    (void)pthread_mutex_unlock(&process_lock);
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
