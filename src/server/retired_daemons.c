/* A short array. The order means nothing, so the last one takes the place of one that is taken out. The caller stops that
 * one, because its thread may wait for the caller's lock meanwhile. */
#include "server/retired_daemons.h"

#include "base/error.h"
#include "server/libmicrohttpd.h"

bool retired_daemons_is_full(const struct retired_daemons *retired)
{
    INVARIANT(retired != NULL && retired->count <= RETIRED_DAEMONS_MAX);
    return retired->count == RETIRED_DAEMONS_MAX;
}

void retired_daemons_add(struct retired_daemons *retired, struct MHD_Daemon *daemon)
{
    INVARIANT(daemon != NULL && !retired_daemons_is_full(retired));
    retired->daemons[retired->count++] = daemon;
}

bool retired_daemons_has(const struct retired_daemons *retired, const struct MHD_Daemon *daemon)
{
    INVARIANT(retired != NULL);
    bool has = false;
    for (size_t i = 0; i < retired->count; i++) {
        has = has || retired->daemons[i] == daemon;
    }
    return has;
}

/* None is accepted any more, so a count of zero stays zero. */
static bool has_connections(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info == NULL || info->num_connections > 0;
}

struct MHD_Daemon *retired_daemons_take(struct retired_daemons *retired, bool at_all)
{
    INVARIANT(retired != NULL && retired->count <= RETIRED_DAEMONS_MAX);
    for (size_t i = 0; i < retired->count; i++) {
        struct MHD_Daemon *daemon = retired->daemons[i];
        if (at_all || !has_connections(daemon)) {
            retired->daemons[i] = retired->daemons[--retired->count];
            return daemon;
        }
    }
    return NULL;
}
