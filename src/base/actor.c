/* The actor of acts: user id and name of the process, and the user that called sudo.
 *
 * The id is what the kernel knows, so it cannot be chosen; the name comes from the system's list of users. SUDO_USER and
 * SUDO_UID are set by sudo, and are shown beside the id because a user may set them too. It never fails: a part that is not
 * known is "-".
 */
#include "base/actor.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/error.h"

enum { USERS_BYTES_MAX = 4096, SUDO_SHOWN_MAX = 64 };

/* The value of a variable of the environment, bounded and printable; "-" without one. */
static void copy_variable(const char *name, char to[SUDO_SHOWN_MAX])
{
    const char *value = getenv(name);
    size_t length = 0;
    for (; value != NULL && value[length] != '\0' && length < SUDO_SHOWN_MAX - 1; length++) {
        to[length] = value[length] > ' ' && value[length] < 0x7f ? value[length] : '?';
    }
    if (length == 0) {
        to[length++] = '-';
    }
    to[length] = '\0';
}

void actor_write(const char *program, char *to, size_t size)
{
    INVARIANT(program != NULL && to != NULL && size > 0);
    char host[64] = "";
    char users[USERS_BYTES_MAX];
    char sudo_name[SUDO_SHOWN_MAX];
    char sudo_id[SUDO_SHOWN_MAX];
    struct passwd entry;
    struct passwd *found = NULL;
    uid_t id = getuid();
    (void)gethostname(host, sizeof host - 1);
    (void)getpwuid_r(id, &entry, users, sizeof users, &found);
    int length = snprintf(to, size, "%s:%.64s(%lu)@%s", program, found == NULL ? "-" : found->pw_name, (unsigned long)id,
                          host[0] == '\0' ? "-" : host);
    if (getenv("SUDO_USER") != NULL && length > 0 && (size_t)length < size) {
        copy_variable("SUDO_USER", sudo_name);
        copy_variable("SUDO_UID", sudo_id);
        (void)snprintf(to + length, size - (size_t)length, " sudo:%s(%s)", sudo_name, sudo_id);
    }
}
