/* The actor of acts: the person behind this process, for the record of acts. Any thread. */
#ifndef WEIR_BASE_ACTOR_H
#define WEIR_BASE_ACTOR_H

#include <stddef.h>

/* Writes "PROGRAM:NAME(UID)@HOST". The user id is that of the process; the name is the one that the system has for it, "-"
 * without one: the environment can name anybody. With SUDO_USER, " sudo:NAME(SUDO_UID)" follows. It is cut at `size` bytes;
 * bytes of the environment that are no printable ASCII become "?". */
void actor_write(const char *program, char *to, size_t size);

#endif
