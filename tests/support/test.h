/* Every test program includes this: cmocka after the headers that it needs. */
#ifndef WEIR_TESTS_SUPPORT_TEST_H
#define WEIR_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* fork() for tests: an assertion that fails in the child aborts it. After fork() alone the child would go on with the next
 * tests beside its parent, and its failure would not count. The parent checks how the child ended. */
static inline pid_t test_fork(void)
{
    pid_t child = fork();
    if (child == 0) {
        (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    }
    return child;
}

#endif
