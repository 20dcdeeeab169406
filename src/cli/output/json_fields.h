/* Reading JSON answers of the store, for tables and sentences. A field that is missing or null reads as "nothing". */
#ifndef WEIR_CLI_OUTPUT_JSON_FIELDS_H
#define WEIR_CLI_OUTPUT_JSON_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/output/output.h"
#include "store/store.h"

/* Strings as they are (made safe), numbers and booleans as texts, objects and lists as compact JSON; NULL when it is
 * missing or null. In the output's arena. */
const char *field_text(struct output *output, const json_t *object, const char *key);
int64_t field_number(const json_t *object, const char *key, int64_t otherwise);
bool field_is_true(const json_t *object, const char *key);
/* Whether a node has the execution or runs it: then its error is of an earlier start. */
bool field_is_held(const json_t *execution);
/* Whether a row of LIST_NODES is of one that has not left and has a valid lease. */
bool field_node_lives(const json_t *node);
/* The whole id of the execution that `id` or its first characters name; `to` holds UUID_TEXT_MAX bytes. */
WEIR_MUST_CHECK enum weir_status resolve_id(struct store *store, const char *id, char *to, struct weir_error *error);
/* How many items a page has. */
size_t page_size(const json_t *page);
/* All rows of one kind as one page, or the one row of `name`. */
WEIR_MUST_CHECK enum weir_status page_read(struct store *store, enum store_list_kind kind, const char *name,
                                           json_t **ret_page, struct weir_error *error);
/* All rows of a list as one page. */
WEIR_MUST_CHECK enum weir_status page_read_all(struct store *store, const struct list_options *options, json_t **ret_page,
                                               struct weir_error *error);
#endif
