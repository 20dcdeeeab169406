/* Read before each file by clang-tidy only (./dev check tidy). Its analyser sees one file at a time, so it takes a failure
 * from error_set() for a call that may have answered WEIR_OK, and then sees NULLs and outputs used that never are. */
#ifndef WEIR_TOOLS_ANALYSER_HINTS_H
#define WEIR_TOOLS_ANALYSER_HINTS_H

#include "base/error.h"

#define error_set(error, status, ...) ((void)(error_set)(error, status, __VA_ARGS__), (status))
#define error_set_native(error, status, ...) ((void)(error_set_native)(error, status, __VA_ARGS__), (status))
#define error_out_of_memory(error) ((void)(error_out_of_memory)(error), WEIR_OUT_OF_MEMORY)

#endif
