#include "assemble.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "store/driver.h"
#include "store/sqlite/sqlite_store.h"

const struct store_driver *const store_drivers[] = {&sqlite_store_driver, NULL};
