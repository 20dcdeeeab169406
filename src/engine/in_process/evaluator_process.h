/* The evaluator: a child process that runs jq programs, because libjq 1.6 cannot be interrupted, takes ~40 ms to compile a
 * program, aborts when memory runs out, and may crash. All of that concerns the evaluator alone: the parent kills one that
 * passes its deadline, starts another, and fails only the step.
 *
 *     parent --frame--> {"id":7,"program":".input.a | add","input":{...}}
 *     parent <--frame-- {"id":7,"value":42}   or   {"id":7,"error":"Cannot index number with \"a\""}
 *
 * A frame is a length (uint32, big endian) and that many bytes of JSON. Answers come in the order of the requests.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EVALUATOR_PROCESS_H
#define WEIR_ENGINE_IN_PROCESS_EVALUATOR_PROCESS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "weir/status.h"

enum {
    EVALUATOR_FRAME_BYTES_MAX = 4 * 1024 * 1024, /* behind the length */
    EVALUATOR_HEADER_BYTES = 4,
    EVALUATOR_PROGRAMS_MAX = 64, /* cached compiled programs; the least recently used one is replaced */
    EVALUATOR_ERROR_BYTES_MAX = 400,
    EVALUATOR_DEADLINE_MS_DEFAULT = 5000 /* after which a parent should kill it; the first use of a program compiles */
};

struct evaluator_answer {
    int64_t id;
    json_t *value;                         /* the reader of the answer owns it; NULL after an error */
    char error[EVALUATOR_ERROR_BYTES_MAX]; /* one line; "" when there is a value */
};

/* The life of the child; call it in a process forked from a single-threaded one, with default signal handlers. Enters the
 * confinement of definition/jq.h (JQ_MEMORY_BYTES_MAX, no environment, no files), and answers requests one after the
 * other. Leaves with _exit(0) at the end of `in_fd`, with 1 when the parent breaks the protocol or is gone. Both are
 * blocking file descriptors. */
_Noreturn void evaluator_main(int in_fd, int out_fd);

/* Appends one request as a frame. WEIR_FAILED when it is larger than EVALUATOR_FRAME_BYTES_MAX (the step's expression
 * failed on too large an input) or than the text's own maximum; `to` is unchanged then. */
WEIR_MUST_CHECK enum weir_status evaluator_request_write(int64_t id, const char *program, const json_t *input,
                                                         struct text *to, struct weir_error *error);
/* Parses the bytes received so far. WEIR_OK: *ret_answer is filled and *ret_used (bytes to drop) is > 0, or *ret_used is
 * 0 when the frame is not complete yet. WEIR_FAILED: this is no answer; kill the evaluator. */
WEIR_MUST_CHECK enum weir_status evaluator_answer_read(const char *bytes, size_t length,
                                                       struct evaluator_answer *ret_answer, size_t *ret_used,
                                                       struct weir_error *error);

#endif
