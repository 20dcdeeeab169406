/* Keys that people know from other systems, or have written one level too high. The hint of the error shows their place in
 * weir. Pure. Inside of definition/ alone. */
#ifndef WEIR_DEFINITION_FOREIGN_KEYS_H
#define WEIR_DEFINITION_FOREIGN_KEYS_H

#include "base/yaml.h"
#include "weir/status.h"

enum foreign_place { FOREIGN_IN_DEFINITION, FOREIGN_IN_STEP };

/* `error`: of yaml_check_keys() for `map`; NULL = nobody reads it. Where it names a foreign key, its hint is replaced. */
void foreign_keys_hint(enum foreign_place place, const struct yaml_node *map, struct weir_error *error);

#endif
