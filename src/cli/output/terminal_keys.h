/* Single keys from the terminal on stdin, without waiting for a newline. Ctrl-C stays a signal.
 *
 * Owner: one at a time; terminal_keys_close() puts the terminal back as it was, and must run on every way out. */
#ifndef WEIR_CLI_OUTPUT_TERMINAL_KEYS_H
#define WEIR_CLI_OUTPUT_TERMINAL_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

struct terminal_keys {
    struct termios before;
    bool is_open;
};

/* False when stdin is no terminal: then no keys come. */
bool terminal_keys_open(struct terminal_keys *keys);
/* The next key, 'j' for the arrow down and 'k' for the arrow up; 0 when none came within `wait_us`, or when `wake_fd`
 * became readable (-1: there is none). */
int terminal_keys_read(struct terminal_keys *keys, int wake_fd, int64_t wait_us);
void terminal_keys_close(struct terminal_keys *keys);

#endif
