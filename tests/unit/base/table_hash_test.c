#include "base/table_hash.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/uuid.h"
#include "support/test.h"

/* Counts `hash` in its bucket. The longest chain so far. */
static size_t count_in_bucket(uint16_t *buckets, uint64_t hash, size_t longest)
{
    uint16_t *bucket = &buckets[hash % 4096];
    (*bucket)++;
    return *bucket > longest ? *bucket : longest;
}

static void spreads_ids_of_one_moment_and_numbered_names(void **state)
{
    (void)state;
    static uint16_t of_ids[4096];
    static uint16_t of_names[4096];
    size_t longest_ids = 0;
    size_t longest_names = 0;
    for (int i = 0; i < 8192; i++) {
        char id[UUID_TEXT_MAX];
        char name[32];
        uuid_make(1700000000000000, id);
        (void)snprintf(name, sizeof name, "workspace-%d", i);
        longest_ids = count_in_bucket(of_ids, table_hash(id), longest_ids);
        longest_names = count_in_bucket(of_names, table_hash(name), longest_names);
    }
    assert_in_range(longest_ids, 2, 20);
    assert_in_range(longest_names, 2, 20);
}

static void reads_every_byte_and_none_behind_the_end(void **state)
{
    (void)state;
    char text[41] = "";
    for (size_t length = 0; length <= 40; length++) {
        memset(text, 'a', length);
        char *own = strdup(text); /* so that a sanitizer sees its end */
        uint64_t hash = table_hash(own);
        assert_true(hash == table_hash(text));
        for (size_t i = 0; i < length; i++) {
            own[i] = 'b';
            assert_true(hash != table_hash(own));
            own[i] = 'a';
        }
        own[0] = '\0';
        assert_true((length == 0) == (hash == table_hash(own)));
        free(own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_ids_of_one_moment_and_numbered_names),
        cmocka_unit_test(reads_every_byte_and_none_behind_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
