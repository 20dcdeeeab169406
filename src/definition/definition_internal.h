/* Private to definition_read(): the tree of a file becomes a struct definition. No other files include this header than
 * those that share the work:
 *   definition_reader.c   the file as a whole
 *   section_reader.c      the sections of steps
 *   step_reader.c         one step
 *   approve_reader.c      a step of the kind `approve`
 *   http_reader.c         the keys of an `http` step
 *   schedules_reader.c    the section `schedules`
 *   secrets_reader.c      the secrets of a step
 *   states_reader.c       the section `states`
 *   temporal_reader.c     the section `temporal`
 *   expression_check.c    the references of expressions
 */
#ifndef WEIR_DEFINITION_DEFINITION_INTERNAL_H
#define WEIR_DEFINITION_DEFINITION_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/yaml.h"
#include "definition/definition.h"

/* A template that was read, and its place: its references can be checked only when all steps are known. */
struct template_use {
    const struct template *template;
    const struct yaml_node *node;
    size_t step;   /* index */
    bool has_item; /* its context has .item and .index */
    struct template_use *next;
};

/* Where an entry of `step_nodes` comes from. */
struct step_place {
    enum step_section section;
    uint16_t target; /* SECTION_UNDO: index of its step */
};

struct definition_reader {
    struct yaml_source source;
    struct arena *arena;                /* of the definition */
    struct arena *scratch;              /* of the tree and of the data that only reading needs */
    const struct yaml_node *step_nodes; /* the steps of all sections as one map */
    const struct step_place *places;    /* of each of them */
    bool hold_slot;                     /* of the definition, for steps that do not say it */
    bool has_item;                      /* templates that are read now have .item and .index in their context */
    const char *owner;                  /* the workspace of the definition, or NULL */
    bool is_from_people;                /* else the text was checked before */
    struct template_use *uses;
    struct template_use **uses_end;
    struct weir_error *error;
};

/* Makes `step_nodes` and `places` of the sections of `root`, which has `steps`. */
WEIR_MUST_CHECK enum weir_status sections_collect(struct definition_reader *reader, const struct yaml_node *root);
/* Refuses the keys and kinds that have no meaning in the section of the step at `index`. */
WEIR_MUST_CHECK enum weir_status section_check_step(struct definition_reader *reader, size_t index, const char *kind);
/* Refuses a need of another section; `node` names it. */
WEIR_MUST_CHECK enum weir_status section_check_need(struct definition_reader *reader, size_t index, size_t need,
                                                    const struct yaml_node *node);
/* Fills what the sections give to the steps (section, target, undo) and to the definition; its count must be known. */
void sections_link(const struct definition_reader *reader, struct step *steps, struct definition *definition);
/* Adds the steps of earlier sections that a step may read to the sets of graph_predecessors(). */
void sections_add_predecessors(const struct definition *definition, uint64_t *sets);

/* Fills `step` from the value at `index` of `step_nodes`. */
WEIR_MUST_CHECK enum weir_status step_read(struct definition_reader *reader, size_t index, struct step *step);

/* Reads the keys of an http step into step->http. */
WEIR_MUST_CHECK enum weir_status http_read(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                           struct step *step);
/* Reads the value of `approve`: a map, which may be empty, or null. The id of the step is known. */
WEIR_MUST_CHECK enum weir_status approve_read(struct definition_reader *reader, const struct yaml_node *node,
                                              struct step *step);
/* Reads the value of `start` into step->start. */
WEIR_MUST_CHECK enum weir_status start_read(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                            struct step *step);
/* Reads `secrets` (NULL: none), after the fields of the kind, because the variables must differ from those of `env`, and
 * the headers from those of `headers`. */
WEIR_MUST_CHECK enum weir_status secrets_read(struct definition_reader *reader, const struct yaml_node *node,
                                              struct step *step);

/* Reads the section `schedules`; the head of the definition must have been read. */
WEIR_MUST_CHECK enum weir_status schedules_read(struct definition_reader *reader, const struct yaml_node *node,
                                                struct definition *definition);
/* Reads the section `temporal` into definition->temporal; the head of the definition must have been read. */
WEIR_MUST_CHECK enum weir_status temporal_read(struct definition_reader *reader, const struct yaml_node *node,
                                               struct definition *definition);
/* Reads the section `states` and its keys of `root` into definition->states, and makes the one step that runs them. */
WEIR_MUST_CHECK enum weir_status states_read(struct definition_reader *reader, const struct yaml_node *root,
                                             struct definition *definition);
/* Refuses the keys of `root` that have a meaning only beside `states`. */
WEIR_MUST_CHECK enum weir_status states_refuse_keys(struct definition_reader *reader, const struct yaml_node *root);
/* Checks the references of the expressions of all `uses`; the graph must be known. Keys of the
 * context, which later versions may extend, and jq programs, which take a process, are checked only in texts of people. */
WEIR_MUST_CHECK enum weir_status expressions_check(struct definition_reader *reader, const struct definition *definition,
                                                   bool is_from_people);
/* A map `retry`, over the defaults that `retry` holds. */
WEIR_MUST_CHECK enum weir_status reader_take_retry(struct definition_reader *reader, const struct yaml_node *node,
                                                   struct step_retry *retry);

/* Shared pieces; each names the field in its message and takes a node that may be anything. */
WEIR_MUST_CHECK enum weir_status reader_take_text(struct definition_reader *reader, const struct yaml_node *node,
                                                  const char *field, const char **ret_text);
WEIR_MUST_CHECK enum weir_status reader_take_name(struct definition_reader *reader, const struct yaml_node *node,
                                                  const char *field, const char **ret_name);
/* The name of a workspace or of an executor group. */
WEIR_MUST_CHECK enum weir_status reader_take_label(struct definition_reader *reader, const struct yaml_node *node,
                                                   const char *field, int bytes_max, const char **ret_name);
WEIR_MUST_CHECK enum weir_status reader_take_duration(struct definition_reader *reader, const struct yaml_node *node,
                                                      const char *field, int64_t *ret_us);
WEIR_MUST_CHECK enum weir_status reader_take_integer(struct definition_reader *reader, const struct yaml_node *node,
                                                     const char *field, int64_t least, int64_t most, int64_t *ret_integer);
WEIR_MUST_CHECK enum weir_status reader_take_boolean(struct definition_reader *reader, const struct yaml_node *node,
                                                     const char *field, bool *ret_boolean);
/* The name of an environment variable that a step may set. */
WEIR_MUST_CHECK enum weir_status reader_take_variable_name(struct definition_reader *reader, const struct yaml_node *node,
                                                           const char **ret_name);
/* The name of a header that a step may set. */
WEIR_MUST_CHECK enum weir_status reader_take_header_name(struct definition_reader *reader, const struct yaml_node *node,
                                                         const char **ret_name);
/* The name of a secret; no expression. */
WEIR_MUST_CHECK enum weir_status reader_take_secret_name(struct definition_reader *reader, const struct yaml_node *node,
                                                         const char **ret_name);
/* Any scalar but null as a template, and any value as a tree of templates. `step` is the index for template_use. */
WEIR_MUST_CHECK enum weir_status reader_take_template(struct definition_reader *reader, size_t step,
                                                      const struct yaml_node *node, const char *field,
                                                      const struct template **ret_template);
/* A template that is one expression. `gives`: the end of the refusal, with what it must give; `hint`: an example. */
WEIR_MUST_CHECK enum weir_status reader_take_expression(struct definition_reader *reader, size_t step,
                                                        const struct yaml_node *node, const char *field, const char *gives,
                                                        const char *hint, const struct template **ret_template);
WEIR_MUST_CHECK enum weir_status reader_take_tree(struct definition_reader *reader, size_t step,
                                                  const struct yaml_node *node, const char *field,
                                                  const struct template **ret_template);

struct fixed_value_rules {
    const char *what;    /* for messages: "\"initial\"" */
    const char *instead; /* the hint of a refused expression */
    size_t bytes_max;    /* of its JSON text */
};
/* A value without expressions, and its JSON text in the arena. The caller frees *ret_value. */
WEIR_MUST_CHECK enum weir_status reader_take_fixed(struct definition_reader *reader, const struct yaml_node *node,
                                                   const struct fixed_value_rules *rules, json_t **ret_value,
                                                   const char **ret_text);

/* The entry of `step_nodes` with this key, or -1. */
int reader_find_step(const struct definition_reader *reader, const char *id, size_t length);
/* The hint for a step that is not there: the nearest one, or none. */
void reader_hint_step(struct definition_reader *reader, const char *id);

#endif
