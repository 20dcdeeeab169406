/* YAML glue over libfyaml: one document of YAML 1.2 or JSON becomes a tree of nodes that know their line and column.
 *
 * Read by workflow definitions and by weir.yaml. The reader is strict where YAML is generous. It refuses aliases (and
 * with them the bombs that nest them), tags, several documents and duplicate keys, keys that are no text, and numbers
 * that JSON cannot hold. Plain scalars follow the YAML 1.2 core schema: `yes` and `on` are text, `true` is a boolean.
 *
 * Owner: the caller's arena holds every node and text. Threads: a finished tree is never changed, so any thread may read
 * it.
 */
#ifndef WEIR_BASE_YAML_H
#define WEIR_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "weir/status.h"

/* Depth of lists and maps inside each other, and how many nodes one document may have. */
enum { YAML_DEPTH_MAX = 32, YAML_NODES_MAX = 100000 };

enum yaml_kind { YAML_NULL, YAML_BOOLEAN, YAML_INTEGER, YAML_NUMBER, YAML_STRING, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_kind kind;
    int line;         /* where it starts, counted from 1 */
    int column;       /* counted from 1, in characters */
    const char *text; /* of every scalar, as it was written (without quotes, with escapes resolved); NUL-terminated */
    size_t length;    /* of `text`; NULs inside are possible in double quotes */
    bool is_quoted;   /* in single or double quotes */
    bool is_literal;  /* one line without escapes: offsets in `text` are columns in the file */
    bool is_block;    /* `|`: line breaks in `text` are line breaks in the file */
    int indent;       /* of a block, columns */
    bool boolean;     /* of YAML_BOOLEAN */
    int64_t integer;  /* of YAML_INTEGER */
    double number;    /* of YAML_NUMBER and YAML_INTEGER; finite */
    size_t count;     /* items of a list, entries of a map */
    const struct yaml_node *const *keys;   /* of a map: `count` nodes of kind YAML_STRING, in file order, all different */
    const struct yaml_node *const *values; /* of a list or map: `count` nodes */
};

/* How messages about one document begin, and which status its faults have. */
struct yaml_source {
    const char *name;        /* "workflow.yaml", "-"; in front of every message as name:line:column */
    enum weir_status status; /* WEIR_INVALID_DEFINITION, WEIR_INVALID_CONFIG, ... */
};

/* Reads `length` bytes of UTF-8 (no NUL needed). The status of `source` stands for bad input, with "name:line:column:
 * fault"; WEIR_OUT_OF_MEMORY when memory or the arena's ceiling ran out. Never prints. */
WEIR_MUST_CHECK enum weir_status yaml_read(const char *bytes, size_t length, const struct yaml_source *source,
                                           struct arena *arena, const struct yaml_node **ret_root,
                                           struct weir_error *error);

/* The value of a key in a map; NULL when it is not there or `map` is no map. */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
/* "map", "list", "text", "integer", "number", "boolean", "null": for messages. */
const char *yaml_kind_name(enum yaml_kind kind);
/* Fills `error` with "name:line:column: ..." at the place of `node` and returns the status of `source`. */
enum weir_status yaml_error(const struct yaml_source *source, const struct yaml_node *node, struct weir_error *error,
                            const char *format, ...) WEIR_PRINTF(4, 5);
/* The same at `offset` bytes inside the text of a scalar, where that is known; else at its start. */
enum weir_status yaml_error_inside(const struct yaml_source *source, const struct yaml_node *node, size_t offset,
                                   struct weir_error *error, const char *format, ...) WEIR_PRINTF(5, 6);
/* Refuses the first key of `map` that is not among `known` (`count` of them): "unknown key \"x\"", with the nearest known
 * one, or all of them, as the hint. A node that is no map is refused too. `place` names the place: "a step". */
WEIR_MUST_CHECK enum weir_status yaml_check_keys(const struct yaml_source *source, const struct yaml_node *map,
                                                 const char *place, const char *const *known, size_t count,
                                                 struct weir_error *error);

#endif
