/* The file descriptors of one process: pipes for its output, files in memory for its command and its stdin.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_PROCESS_FILES_H
#define WEIR_ENGINE_IN_PROCESS_PROCESS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* The strings of one command, in the layout of keeper_protocol.h. Fill argv, then env, then cwd. */
struct process_command {
    struct text strings;
    uint32_t argc;
    uint32_t envc;
    uint32_t result_variable; /* the place of WEIR_OUTPUT in the environment, from 1; 0: there is none */
};
void process_command_init(struct process_command *command);
/* Adds a NUL-terminated string. WEIR_INVALID_ARGUMENT: it holds a NUL; WEIR_FAILED: the command is too large. */
WEIR_MUST_CHECK enum weir_status process_command_add(struct process_command *command, const char *bytes, size_t length);
void process_command_close(struct process_command *command);

enum { PROCESS_OWN_FILES = 2, PROCESS_STEP_FILES = 4 };

struct process_files {
    int own[PROCESS_OWN_FILES];   /* the ends of stdout and stderr that the node reads, non-blocking */
    int step[PROCESS_STEP_FILES]; /* command, stdin, stdout, stderr: for KEEPER_START */
};

/* `input` becomes the stdin; NULL: `empty_fd`. False: errno is set, and nothing is open. */
bool process_files_open(struct process_files *files, const struct process_command *command, const struct text *input,
                        int empty_fd);
/* Closes those that are not -1. */
void process_files_close(int *fds, size_t count);
void process_files_set_nonblocking(int fd);

#endif
