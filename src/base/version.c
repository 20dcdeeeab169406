/* The version of the library, as the build defines it (VERSION). A file of its own, so that a new version recompiles
 * little.
 */
#include "weir/weir.h"

const char *weir_version(void)
{
    return WEIR_VERSION;
}
