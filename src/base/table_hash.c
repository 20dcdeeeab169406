/* Eight bytes at a time are mixed into the hash, then the rest. Bytes of zero fill the last part. No text has such bytes,
 * so different texts have different parts. Any thread. */
#include "base/table_hash.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"

/* A multiplication moves bits up only, so the upper half is folded down after each. */
static uint64_t mix_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 32);
}

uint64_t table_hash(const char *string)
{
    INVARIANT(string != NULL);
    size_t length = strlen(string);
    uint64_t hash = 14695981039346656037U; /* so that zero changes it */
    uint64_t word = 0;
    for (; length >= sizeof word; length -= sizeof word, string += sizeof word) {
        memcpy(&word, string, sizeof word);
        hash = mix_word(hash, word);
    }
    word = 0;
    memcpy(&word, string, length);
    return mix_word(hash, word);
}
