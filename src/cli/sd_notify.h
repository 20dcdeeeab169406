/* Reports of the daemon's state to a service manager: sd_notify(3)'s protocol without its library.
 *
 * Datagrams to the socket that NOTIFY_SOCKET names. Without it every call does nothing. Threads: one. */
#ifndef WEIR_CLI_SD_NOTIFY_H
#define WEIR_CLI_SD_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1", "STATUS=...", "WATCHDOG=1"; several are separated by '\n'. A manager that does not listen is
 * no failure. */
void sd_notify_send(const char *state);
/* Reports that the settings are read again (Type=notify-reload needs the time); READY=1 ends it. */
void sd_notify_reloading(void);
/* How often WATCHDOG=1 is expected (WATCHDOG_USEC, halved), 0 = never. */
int64_t sd_notify_watchdog_us(void);

#endif
