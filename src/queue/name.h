/* The names that definitions give: of workflows, steps, handlers and signals. Pure; any thread. */
#ifndef WEIR_QUEUE_NAME_H
#define WEIR_QUEUE_NAME_H

#include <stdbool.h>

/* True for [a-z0-9][a-z0-9_-]{0,63}. */
bool name_is_valid(const char *name);
/* True for [a-z0-9_.-]{1,64}, the name of a label. */
bool label_name_is_valid(const char *name);

#endif
