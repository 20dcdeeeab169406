/* Ctrl-C, SIGTERM and the end of the terminal as a question that loops ask between two chunks of work, never as a cut in
 * the middle of one. */
#ifndef WEIR_CLI_SIGNALS_H
#define WEIR_CLI_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) only count. Once per process is enough;
 * again does nothing. */
void signals_catch(void);
/* From now on SIGHUP asks for a reload instead, unless it was ignored before, or the terminal that this process was started
 * in is gone: then it counts as before. After signals_catch(). */
void signals_catch_reload(void);
/* True once after a SIGHUP that asked for a reload. signals_sleep() returns for it, too. */
bool signals_take_reload(void);
/* How many signals have come. */
int signals_count(void);
/* Readable once a signal has come, for poll(); no other code reads it. -1 before signals_catch(). */
int signals_fd(void);
/* Sleeps; returns early when a signal came. */
void signals_sleep(int64_t duration_us);

#endif
