/* Ctrl-C, SIGTERM and the end of the terminal as a question that loops ask between two chunks of work, never as a cut in
 * the middle of one. */
#ifndef WEIR_CLI_SIGNALS_H
#define WEIR_CLI_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) only count. Once per process is enough;
 * again does nothing. */
void interrupt_watch(void);
/* From now on SIGHUP asks for a reload instead, unless it was ignored before, or the terminal that this process was started
 * in is gone: then it counts as before. After interrupt_watch(). */
void interrupt_reloads(void);
/* True once after a SIGHUP that asked for a reload. interrupt_sleep() returns for it, too. */
bool interrupt_take_reload(void);
/* How many signals have come. */
int interrupt_count(void);
/* Readable once a signal has come, for poll(); no other code reads it. -1 before interrupt_watch(). */
int interrupt_fd(void);
/* Sleeps; returns early when a signal came. */
void interrupt_sleep(int64_t duration_us);

#endif
