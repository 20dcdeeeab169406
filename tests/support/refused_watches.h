/* inotify refuses every instance, as for a user with too many: for a program that links this. One thread at a time. */
#ifndef WEIR_TESTS_SUPPORT_REFUSED_WATCHES_H
#define WEIR_TESTS_SUPPORT_REFUSED_WATCHES_H

/* How many more are refused. */
extern int watches_to_refuse;

#endif
