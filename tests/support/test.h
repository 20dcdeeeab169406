/* What every test program includes: cmocka with the headers that it wants first. */
#ifndef WEIR_TESTS_SUPPORT_TEST_H
#define WEIR_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#endif
