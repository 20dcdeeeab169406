/* Reads JSON into the tree of yaml.h. For text that a program wrote; base/yaml_json.c gives the reason for a second reader.
 */
#ifndef WEIR_BASE_YAML_JSON_H
#define WEIR_BASE_YAML_JSON_H

#include "base/yaml.h"

/* As yaml_read(), for strict JSON, through jansson: the text may hold any character. Nodes have no
 * place (1:1); only the fault of the text itself has line and column. */
WEIR_MUST_CHECK enum weir_status yaml_read_json(const char *bytes, size_t length, const struct yaml_source *source,
                                                struct arena *arena, const struct yaml_node **ret_root,
                                                struct weir_error *error);

#endif
