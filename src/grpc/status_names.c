/* The names of the enums in grpc_client.h: causes and status codes.
 *
 * The lists of the header give enum and name together, so a new value cannot lack its name. Logs, metrics and messages use
 * these names. A number outside of an enum gives "?", because codes come from servers. Pure; any thread.
 */
#include "grpc/grpc_client.h"

const char *grpc_cause_name(enum grpc_cause cause)
{
    static const char *const names[GRPC_CAUSE_COUNT] = {
#define GRPC_CAUSE_TEXT(id, name) name,
        GRPC_CAUSE_LIST(GRPC_CAUSE_TEXT)
#undef GRPC_CAUSE_TEXT
    };
    return (unsigned)cause < GRPC_CAUSE_COUNT ? names[cause] : "?";
}

const char *grpc_code_name(int code)
{
    static const char *const names[GRPC_CODE_COUNT] = {
#define GRPC_CODE_TEXT(id, number, name) [number] = name,
        GRPC_CODE_LIST(GRPC_CODE_TEXT)
#undef GRPC_CODE_TEXT
    };
    return code >= 0 && code < GRPC_CODE_COUNT ? names[code] : "?";
}
