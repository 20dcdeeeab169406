/* The rules for the names that definitions give. */
#include "queue/name.h"

#include <string.h>

#include "queue/limits.h"

bool name_is_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t length = strspn(name, letters);
    return length > 0 && length <= WORKFLOW_NAME_MAX && name[length] == '\0' && name[0] != '_' && name[0] != '-';
}

bool label_name_is_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t length = strspn(name, letters);
    return length > 0 && length <= LABEL_NAME_MAX && name[length] == '\0';
}
