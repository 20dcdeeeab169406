/* Reads TZif files. A file has
 *
 *   1. a header and a block with times of 32 bits, for readers of version 1, which is skipped;
 *   2. a header and a block with times of 64 bits. It has the times of changes, each with the index of a type. Then the
 *      types (offset, mark of summer time, name), names, and marks that a reader with UTC does not need;
 *   3. the rule of POSIX for all later times, between two line ends.
 *
 * The bytes are foreign input: every number is checked before it is used.
 */
#include "calendar/zone_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    HEADER_SIZE = 44,
    VERSION_AT = 4,
    COUNTS_AT = 20, /* six numbers of four bytes: UT marks, standard marks, leap seconds, changes, types, characters */
    TYPE_SIZE = 6,
    TYPES_MOST = 256,
    OFFSET_MOST = 26 * 3600
};

struct counts {
    size_t ut_marks;
    size_t standard_marks;
    size_t leap_seconds;
    size_t changes;
    size_t types;
    size_t characters;
};

static int64_t read_big_endian(const unsigned char *at, size_t size)
{
    uint64_t number = (at[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < size; i++) {
        number = number << 8 | at[i];
    }
    return (int64_t)number;
}

/* The largest number is 2^32, so that sums of sizes stay far below SIZE_MAX. */
static size_t read_count(const unsigned char *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

static bool read_header(const unsigned char *bytes, size_t length, struct counts *ret_counts)
{
    if (length < HEADER_SIZE || memcmp(bytes, "TZif", 4) != 0 || bytes[VERSION_AT] < '2') {
        return false;
    }
    const unsigned char *at = bytes + COUNTS_AT;
    *ret_counts = (struct counts){.ut_marks = read_count(at),
                                  .standard_marks = read_count(at + 4),
                                  .leap_seconds = read_count(at + 8),
                                  .changes = read_count(at + 12),
                                  .types = read_count(at + 16),
                                  .characters = read_count(at + 20)};
    return true;
}

static size_t block_size(const struct counts *counts, size_t time_size)
{
    return counts->changes * (time_size + 1) + counts->types * TYPE_SIZE + counts->characters +
           counts->leap_seconds * (time_size + 4) + counts->standard_marks + counts->ut_marks;
}

/* False: there is no such type, or no place on earth has its offset. */
static bool offset_of_type(const unsigned char *types, size_t count, size_t index, int32_t *ret_offset)
{
    int64_t offset = index < count ? read_big_endian(types + index * TYPE_SIZE, 4) : INT32_MIN;
    *ret_offset = (int32_t)offset;
    return offset >= -OFFSET_MOST && offset <= OFFSET_MOST;
}

static const char *zone_file_read_changes(const unsigned char *block, const struct counts *counts, struct zone_table *table)
{
    const unsigned char *indices = block + counts->changes * 8;
    const unsigned char *types = indices + counts->changes;
    if (!offset_of_type(types, counts->types, 0, &table->first_offset)) {
        return "it has no type of local time";
    }
    table->changes = calloc(counts->changes + 1, sizeof *table->changes);
    if (table->changes == NULL) {
        return "out of memory";
    }
    for (size_t i = 0; i < counts->changes; i++) {
        struct zone_change *change = &table->changes[i];
        change->at = read_big_endian(block + i * 8, 8);
        if (!offset_of_type(types, counts->types, indices[i], &change->offset)) {
            return "a change leads to no type of local time";
        }
        if (i > 0 && change->at <= table->changes[i - 1].at) {
            return "its changes are out of order";
        }
    }
    table->count = counts->changes;
    return NULL;
}

/* Between two line ends. Empty: the last offset holds for ever. */
static const char *read_rule(const unsigned char *at, size_t length, struct zone_table *table)
{
    const unsigned char *end = length == 0 || at[0] != '\n' ? NULL : memchr(at + 1, '\n', length - 1);
    if (end == NULL) {
        return "the rule at its end is missing";
    }
    table->has_rule = end > at + 1;
    if (table->has_rule && !posix_zone_read((const char *)at + 1, (size_t)(end - at - 1), &table->rule)) {
        return "the rule at its end cannot be read";
    }
    return NULL;
}

const char *zone_file_read(const unsigned char *bytes, size_t length, struct zone_table *ret_table)
{
    INVARIANT(bytes != NULL && ret_table != NULL);
    struct counts first;
    struct counts second;
    *ret_table = (struct zone_table){.count = 0};
    if (length > ZONE_FILE_MAX || !read_header(bytes, length, &first)) {
        return "it is no time zone file of version 2 or later";
    }
    size_t second_at = HEADER_SIZE + block_size(&first, 4);
    if (second_at > length || !read_header(bytes + second_at, length - second_at, &second)) {
        return "it ends too early";
    }
    size_t block_at = second_at + HEADER_SIZE;
    size_t rule_at = block_at + block_size(&second, 8);
    if (rule_at > length || second.types > TYPES_MOST) {
        return "it ends too early";
    }
    if (second.leap_seconds > 0) {
        return "it counts leap seconds, which the clocks of this system do not";
    }
    const char *reason = zone_file_read_changes(bytes + block_at, &second, ret_table);
    if (reason == NULL) {
        reason = read_rule(bytes + rule_at, length - rule_at, ret_table);
    }
    if (reason != NULL) {
        free(ret_table->changes);
        *ret_table = (struct zone_table){.count = 0};
    }
    return reason;
}
