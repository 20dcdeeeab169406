/* Workflow definitions: the steps of executions. Written by people as YAML 1.2 or JSON, kept by the store as canonical JSON
 * text.
 *
 *     file --definition_read()--> struct definition --definition_write()--> canonical text (one version = one text)
 *                                        ^------------definition_load()-------------'
 *
 * The language is described in docs/definitions.md. A definition is checked as a whole when it is read: a struct definition
 * that exists is right, so code behind this header does not check again. Reading it is pure but for one thing: jq programs
 * are compiled by a short-lived child process (definition/jq.h).
 *
 * Owner: everything hangs in one arena of the definition; definition_close() frees it. Nothing changes after reading, so
 * any number of threads may read it at the same time.
 */
#ifndef WEIR_DEFINITION_DEFINITION_H
#define WEIR_DEFINITION_DEFINITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "calendar/recurrence.h"
#include "definition/expression.h"
#include "queue/limits.h"
#include "queue/name.h"
#include "weir/status.h"

enum {
    DEFINITION_BYTES_MAX = 1024 * 1024,             /* source text */
    DEFINITION_MEMORY_BYTES_MAX = 64 * 1024 * 1024, /* memory of one definition while it is read */
    DEFINITION_STEPS_MAX = 200,
    DEFINITION_PROGRAMS_MAX = 200, /* expressions that need jq; each costs an evaluator ~40 ms to compile */
    DEFINITION_STARTS_MAX = 100,
    DEFINITION_STATES_MAX = 200,
    DEFINITION_SCHEDULES_MAX = 32,
    SCHEDULE_NAMED_WORKSPACES_MAX = 100, /* of a list; as of each schedule of a store */
    STATE_VARIABLES_MAX = 64,            /* declared in one definition */
    STATE_SIGNALS_MAX = 32,              /* likewise */
    STEP_ARGUMENTS_MAX = 256,
    STEP_ENVIRONMENT_MAX = 128,
    STEP_SECRETS_MAX = 32,
    STEP_HEADERS_MAX = 64,
    STEP_STATUSES_MAX = 32,
    STEP_REDIRECTS_MAX = 5,
    STEP_ERROR_CODES_MAX = 32,
    TEMPORAL_NAME_BYTES_MAX = 255, /* the column of every store of Temporal */
    TEMPORAL_FIELDS_MAX = 32,      /* of a memo, of the search attributes, and of the arguments */
    TEMPORAL_PRIORITY_FIRST = 1,
    TEMPORAL_PRIORITY_LAST = 5,
    TEMPORAL_MAP_BYTES_MAX = 64 * 1024, /* of a memo, and of the search attributes, as JSON */
    STEP_ATTEMPTS_MAX = 100,
    STEP_FACTOR_MAX = 100
};

/* The search attribute that has the workspace, where the namespace has it. */
#define TEMPORAL_WORKSPACE_ATTRIBUTE "WeirWorkspace"
/* Fields of a memo that begin so are weir's own. */
#define TEMPORAL_OWN_PREFIX "weir_"
#define STEP_BACKOFF_US_DEFAULT (1 * MICROSECONDS_PER_SECOND)
#define STEP_BACKOFF_MAX_US_DEFAULT (60 * MICROSECONDS_PER_SECOND)
#define STEP_FACTOR_DEFAULT 2.0
/* The `retry` of a handler without one: 17 retries, 1 min x 2^n, at most 1 day (the defaults of nFlow). */
#define HANDLER_ATTEMPTS_DEFAULT 18
#define HANDLER_BACKOFF_US_DEFAULT (60 * MICROSECONDS_PER_SECOND)
#define HANDLER_BACKOFF_MAX_US_DEFAULT (24 * 3600 * MICROSECONDS_PER_SECOND)
/* Longest time that a definition may name: ten years. */
#define DEFINITION_DURATION_US_MAX (3650 * 24 * 3600 * MICROSECONDS_PER_SECOND)

/* Where a step stands in the definition, which decides when it runs. In the order in which they run. */
enum step_section {
    SECTION_STEPS,
    SECTION_UNDO,       /* after a failure, one after the other: for each step that completed, the last finished first */
    SECTION_ON_FAILURE, /* after a failure */
    SECTION_FINALLY     /* at the end of each execution that is not cancelled */
};

/* The id of an undo: that of its step, and this. No id of a user has a dot. */
#define STEP_UNDO_SUFFIX ".undo"

enum step_kind { STEP_EXEC, STEP_SLEEP, STEP_HANDLER, STEP_HTTP, STEP_SIGNAL, STEP_START, STEP_STATES };

/* Runs of one step. Wait before run n + 1: backoff_us * factor^(n-1), at most max_us. */
struct step_retry {
    int attempts;       /* runs in all, >= 1; 1 = no retry */
    int64_t backoff_us; /* >= 0 */
    double factor;      /* >= 1 */
    int64_t max_us;
    const char *const *not_on; /* error codes that end the step at once */
    size_t not_on_count;
};

struct step_environment {
    const char *name;
    const struct template *value;
};

/* A secret of the node (base/secret.h). Its value is in no definition and in no expression. */
struct step_secret {
    const char *name;
    /* exec: the environment variable that gets it; http: the header, NULL for `bearer` and `sign`; handler: NULL */
    const char *variable;
};

struct step_exec {
    const struct template *const *argv; /* argc >= 1; evaluate with template_evaluate_text() */
    size_t argc;
    const struct step_environment *env; /* in file order */
    size_t env_count;
    const char *const *env_from; /* variables of the node's environment that the step inherits, in file order */
    size_t env_from_count;
    const struct template *cwd;            /* NULL: the node's */
    const struct template *stdin_template; /* NULL: empty; strings raw, other values as compact JSON */
    size_t output_max; /* bytes of stdout, 1 to STEP_OUTPUT_BYTES_MAX (the default); more is a failure */
};

/* Exactly one of both is set; evaluate with template_evaluate_text(). */
struct step_sleep {
    const struct template *duration; /* gives duration_parse() text; read at run time when it holds an expression */
    const struct template *until;    /* gives RFC 3339 text for time_parse() */
};

struct step_handler {
    const char *name;             /* under which the C function was registered; not checked here */
    const struct template *input; /* any shape; NULL: the execution's input */
};

struct step_header {
    const char *name;
    const struct template *value;
};

/* Statuses of HTTP, 100 to 599. */
struct step_statuses {
    int first;
    int last;
};

struct step_http {
    const char *method; /* "GET", "POST", ... */
    /* Evaluate each part on its own and encode its value, unless it is one expression; see engine/in_process/step_http.h.
     */
    const struct template *url;
    const struct step_header *headers; /* in file order */
    size_t header_count;
    const struct template *body;        /* NULL: none; strings raw, other values as JSON */
    const struct step_statuses *expect; /* the statuses of success; none: 200 to 299 */
    size_t expect_count;
    int redirects;       /* that are followed, 0 to STEP_REDIRECTS_MAX */
    const char *bearer;  /* a secret of the step, sent as `Authorization: Bearer`; NULL: none */
    const char *sign;    /* a secret of the step, the key of the header Weir-Signature; NULL: none */
    int64_t callback_us; /* after status 202 the step waits so long for the report of the function; 0: 202 is an end */
};

/* A wait for the decision of a person or a program. */
struct step_approval {
    const char *const *by; /* the actors who may decide; none: everybody who may send signals */
    size_t by_count;
    const char *prompt; /* for people; NULL: none */
    bool has_default;   /* the timeout decides */
    bool default_approves;
    bool
        fails_on_reject; /* the step fails with the code `rejected`; else it completes, and its output shows the decision */
};

/* A wait for a signal of the execution. */
struct step_signal {
    const char *name;
    int64_t timeout_us;                    /* of the wait; 0 = none */
    const struct template *default_output; /* constant: the output after the timeout; NULL: then the step fails */
    /* Of a step `approve`; its name is APPROVAL_SIGNAL and the id of the step. NULL: a step `signal`. */
    const struct step_approval *approval;
};

/* Executions of another workflow. */
struct step_start {
    const char *workflow;
    const char *workspace;           /* of the children; NULL: that of the parent, as always in a workflow with an owner */
    const struct template *params;   /* a map; NULL: none. With for_each it may read .item and .index */
    const struct template *for_each; /* gives a list, with a child for each item; NULL: one child */
    const struct template *key;      /* the idempotency key of a child; evaluate as `params`, with
                                        template_evaluate_text(). NULL: none */
    const char *executor_group;      /* NULL: that of the workflow, else that of the parent */
    int priority;                    /* with has_priority, else that of the parent */
    bool has_priority;
    int wait;           /* for so many completed children; START_WAITS_FOR_ALL, 0 = none */
    int max_parallel;   /* children that have begun and not ended; 0 = all */
    bool leaves;        /* children go on behind the end of the parent, else they are cancelled */
    const char *signal; /* the name of the signal that ends the wait, which no person can send: CHILDREN_SIGNAL and the id
                           of the step */
};
enum { START_WAITS_FOR_ALL = -1 };

struct step {
    const char *id;
    enum step_kind kind;
    enum step_section section;
    uint16_t target;        /* SECTION_UNDO: index of the step that it undoes */
    int undo;               /* SECTION_STEPS: index of the step that undoes it; -1 = none */
    bool continue_on_error; /* its failure is no failure of the execution, and counts as finished */
    const uint16_t *needs;  /* indexes into definition.steps, in file order, each once */
    size_t needs_count;
    /* NULL: always. Otherwise exactly one expression, for template_evaluate_condition(). A step with a false condition is
     * skipped: it counts as finished, its output is null, and the steps that need it go on. */
    const struct template *when;
    int64_t timeout_us; /* of one run; 0 = none */
    bool hold_slot;     /* the execution keeps its slot while it waits for this step */
    struct step_retry retry;
    const struct step_secret
        *secrets; /* not of sleep, signal and start; in file order, then those of `bearer` and `sign` */
    size_t secret_count;
    union {
        struct step_exec exec;
        struct step_sleep sleep;
        struct step_handler handler;
        struct step_http http;
        struct step_signal signal;
        struct step_start start;
    };
};

/* The name of the signal that ends the wait of a signal or start step; NULL: the step waits for none. */
static inline const char *step_awaits(const struct step *step)
{
    return step->kind == STEP_SIGNAL ? step->signal.name : step->kind == STEP_START ? step->start.signal : NULL;
}

/* The start of a workflow on Temporal, in place of steps. 0 and NULL: not given.
 *
 * Expressions are plain paths over `.input` and `.execution` (id, workspace, workflow, version), never jq programs. So the
 * version and the params, which are on record before the execution is assigned, give the same start on each node and each
 * time. A text that is one expression without a value (null) leaves its field out. See engine/temporal/fields.h. */
struct definition_temporal {
    const char *workflow_type;                /* the definition's name */
    const struct template *workflow_id;       /* "execution-<id>"; never constant */
    const struct template *task_queue;        /* the node's `temporal.task_queue` */
    const struct template *arguments;         /* a list; NULL: the params are the one argument, byte for byte */
    const struct template *execution_timeout; /* these four give duration_parse() text */
    const struct template *run_timeout;
    const struct template *task_timeout;
    const struct template *start_delay;
    const struct template *priority; /* gives 1 (first) to 5; NULL: made of weir's priority */
    bool has_retry;                  /* a workflow retry policy: `retry` is sent */
    struct step_retry retry;
    const struct template *memo; /* these three are maps */
    const struct template *search_attributes;
    const struct template *headers;
    bool has_expressions; /* else the params are not read */
};

/* --- states --- */

enum state_type {
    STATE_NORMAL, /* runs its handler */
    STATE_MANUAL, /* waits for a person: no handler */
    STATE_END,    /* reached, the execution is COMPLETED: no handler */
    STATE_ERROR   /* reached, the execution is FAILED; with a handler, once that is done */
};
/* "normal", "manual", "end", "error". Static. */
const char *state_type_name(enum state_type type);

struct state {
    const char *name;
    enum state_type type;
    const char *handler;     /* NULL: none */
    struct step_retry retry; /* of its handler */
    int64_t timeout_us;      /* of one run; 0 = none */
    int on_failure;          /* index of the state after a failure; -1 = that of the definition */
    const uint16_t *next;    /* indexes of the states that may follow; any may with `has_next` false */
    size_t next_count;
    bool has_next;
};

/* The JSON type of a variable. */
enum variable_type {
    VARIABLE_ANY,
    VARIABLE_STRING,
    VARIABLE_NUMBER,
    VARIABLE_INTEGER,
    VARIABLE_BOOLEAN,
    VARIABLE_OBJECT,
    VARIABLE_ARRAY
};
/* "any", "string", "number", "integer", "boolean", "object", "array". Static. */
const char *variable_type_name(enum variable_type type);

struct state_variable {
    const char *name;
    enum variable_type type;
    const char *initial; /* JSON text; NULL: the variable has no value before it is set */
};

/* A workflow whose handlers decide which state follows, in the place of steps (docs/design/states.md). */
struct definition_states {
    const struct state *states; /* in file order */
    size_t count;               /* at least 1 */
    size_t initial;
    int on_error; /* the state after a failure without one of its own; -1 = the execution fails */
    const struct state_variable *variables;
    size_t variable_count;
    const char *const *signals; /* the names for which states may wait */
    size_t signal_count;
    bool unknown_fails; /* an unknown state is a failure; else the execution waits with it */
};
/* Whether a value has the type. */
bool variable_accepts(enum variable_type type, const json_t *value);
/* The index of a state, variable or signal by its name, or -1. */
int states_find(const struct definition_states *states, const char *name);
int states_find_variable(const struct definition_states *states, const char *name);
int states_find_signal(const struct definition_states *states, const char *name);

/* The id of the step that runs the states. */
#define STATES_STEP "state"

/* A label that each execution has unless its request gives another value. */
struct definition_label {
    const char *name;
    const char *value;
};

/* How the message of a refused schedule begins. */
#define DEFINITION_SCHEDULE_REFUSAL "schedule \"%s\""
enum { DEFINITION_SCHEDULE_REFUSAL_MAX = sizeof "schedule \"\"" + 64 };

/* Times at which the workflow starts by itself. 0 and NULL: not given. The store makes a schedule of each when it publishes
 * the definition (store/schedules.h). */
struct definition_schedule {
    const char *name; /* of all schedules of the store */
    int line;         /* for definition_place_refusal() */
    int column;
    struct recurrence_text when;
    int64_t jitter_us;
    const char *const *workspaces; /* names; none: those of the plan, or the owner of the definition */
    size_t workspace_count;
    const char *plan;
    const char *params;  /* JSON text of an object */
    const char *overlap; /* a name of schedule_overlap_name(); NULL = the default, "skip" */
    int64_t catch_up_us;
};

struct definition {
    const char *name;
    const char *workspace; /* its owner; NULL = every workspace may run it */
    int workspace_line;    /* where it names that, for definition_place_refusal(); 0 = nowhere */
    int workspace_column;
    const char *executor_group;                  /* where an enqueue that names none goes; NULL = not given */
    int64_t timeout_us;                          /* of the whole execution; 0 = none */
    int64_t stuck_after_us;                      /* warn when it runs longer; 0 = the node's default */
    const struct definition_label *labels;       /* of each execution, in file order */
    size_t label_count;                          /* at most LABELS_MAX */
    const struct definition_schedule *schedules; /* in file order */
    size_t schedule_count;                       /* at most DEFINITION_SCHEDULES_MAX */
    bool hold_slot;                              /* that of the steps which do not say it */
    int starts_max;                              /* refused starts before it fails; 0 = the node's default */
    const struct definition_temporal *temporal;  /* NULL: it has steps, for the in-process engine */
    const struct definition_states *states;      /* NULL: none; else it has the one step STATES_STEP */
    /* Those of `steps` in file order, their undos, those of `on_failure`, those of `finally`; count >= 1, or 0 with
     * `temporal`. */
    const struct step *steps;
    const char
        *source; /* the text that definition_read() was given when it is YAML, with its comments; NULL: it was JSON */
    size_t count;
    size_t main_count;            /* of `steps` */
    bool has_finally;             /* one of them is in `finally` */
    const uint16_t *order;        /* `count` step indexes, each behind all that it needs */
    const uint64_t *predecessors; /* see definition_step_precedes() */
    struct arena arena;
};

/* Reads YAML or JSON and checks everything, also jq programs. `source_name` begins the messages; copied nowhere. On
 * WEIR_INVALID_DEFINITION the message is "name:line:column: fault" and the hint names the mend;
 * WEIR_OUT_OF_MEMORY; WEIR_SYSTEM when no child process could be had. */
WEIR_MUST_CHECK enum weir_status definition_read(const char *bytes, size_t length, const char *source_name,
                                                 struct definition **ret_definition, struct weir_error *error);
/* The same for text that definition_write() made, without compiling jq programs again: for text out of the store. */
WEIR_MUST_CHECK enum weir_status definition_load(const char *bytes, size_t length, const char *source_name,
                                                 struct definition **ret_definition, struct weir_error *error);
/* For a definition that was read from `source_name` and that a store has refused to publish. Where the fault is the owner,
 * or a schedule that the message names first, the message begins with its place, as those of definition_read() do. `error`
 * may be NULL. */
void definition_place_refusal(const struct definition *definition, const char *source_name, enum weir_status status,
                              struct weir_error *error);
/* Appends the canonical JSON text: fixed order of keys, steps in file order, defaults left out, times in their shortest
 * form. Equal texts mean equal definitions, and definition_load() gives the same definition back. The spelling of the
 * file does not change the text: YAML or JSON, quotes, comments, order of keys, 90s or 1m30s. */
WEIR_MUST_CHECK enum weir_status definition_write(const struct definition *definition, struct text *to,
                                                  struct weir_error *error);
/* Takes NULL. */
void definition_close(struct definition *definition);

/* True when step `before` is among the direct or indirect needs of step `after`, or all of its section ends before
 * `after`. Then its result is in `.steps` of `after`. No other result is, so that an expression never depends on the
 * faster step. */
bool definition_step_precedes(const struct definition *definition, size_t before, size_t after);
/* "steps", "undo", "on_failure", "finally". Static. */
const char *step_section_name(enum step_section section);
/* The defaults of a step of this kind without `retry`, and of the keys that its `retry` leaves out. */
struct step_retry step_retry_default(enum step_kind kind);

#endif
