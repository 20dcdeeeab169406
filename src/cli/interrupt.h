/* Ctrl-C, SIGTERM and the end of the terminal as a question that loops ask between two chunks of work, never as a cut in
 * the middle of one. */
#ifndef WEIR_CLI_INTERRUPT_H
#define WEIR_CLI_INTERRUPT_H

#include <stdint.h>

/* From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) only count. Once per process is enough;
 * again does nothing. */
void interrupt_watch(void);
/* How many signals have come. */
int interrupt_count(void);
/* The last one (SIGINT, SIGTERM, SIGHUP); 0 when none came. */
int interrupt_signal(void);
/* Readable once a signal has come, for poll(); never read it empty. -1 before interrupt_watch(). */
int interrupt_fd(void);
/* Sleeps; returns early when a signal came. */
void interrupt_sleep(int64_t duration_us);

#endif
