/* The command line as data: one table of commands and flags makes parsing, help, man pages, completion, docs/commands.md.
 *
 *     argv --command_parse()--> struct invocation --command->run()--> status --main.c--> one error line, exit code
 *
 * To add a verb: declare its function below, add a row to command_table.c, write it in verb_NAME.c. A verb
 * - gets its values from the invocation_...() functions; they are checked for type, range and spelling already;
 * - writes data with output_...() to stdout and talk to stderr (output.h), never with printf;
 * - returns a status and fills `error`; main prints "weir: MESSAGE (CODE)" and the hint, and exits with
 *   weir_status_exit(). A status with an empty message means that the verb has printed the message already.
 *
 * Threads: one. Memory: everything of an invocation lives in its arena until the process ends.
 */
#ifndef WEIR_CLI_ARGUMENTS_COMMAND_H
#define WEIR_CLI_ARGUMENTS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "cli/output/output.h"
#include "cli/settings/settings.h"
#include "store/store.h"
#include "weir/status.h"

/* --- the table --- */

enum value_type {
    VALUE_NONE, /* a switch */
    VALUE_TEXT,
    VALUE_INTEGER,  /* least <= n <= most */
    VALUE_DURATION, /* "10s", "1h30m" */
    VALUE_TIME,     /* RFC 3339, "now", "+10m" */
    VALUE_CHOICE    /* one of `choices` */
};

struct flag {
    const char *name; /* "workspace": --workspace */
    char letter;      /* 'w': -w; 0 = none */
    enum value_type type;
    const char *value;   /* the name of the value in help: "NAME" */
    const char *help;    /* one line, no full stop */
    const char *choices; /* VALUE_CHOICE: "table json jsonl", as a text */
    int64_t least;       /* VALUE_INTEGER */
    int64_t most;
    bool has_setting; /* it overrides `setting` (settings.h), for this call */
    enum setting_id setting;
};

struct argument {
    const char *name; /* "WORKFLOW"; NULL ends the list */
    const char *help;
    bool optional;
    bool many; /* takes all that is left; only the last one */
};

enum { COMMAND_ARGUMENTS_MAX = 2, COMMAND_FLAGS_MAX = 10 };

/* Marks of a command. */
enum command_mark {
    COMMAND_CHANGES = 1 << 0,    /* changes the store: obeys --dry-run */
    COMMAND_NO_DRY_RUN = 1 << 1, /* --dry-run is refused: there is nothing that it could mean */
    COMMAND_NO_SETTINGS = 1 << 2 /* works with any weir.yaml */
};

struct invocation;

struct command {
    const char *name;    /* "enqueue", "workflow apply" */
    const char *section; /* under which `weir help` lists it */
    const char *summary; /* one line, imperative, no full stop */
    const char *example; /* command lines without "$ ", each ended by '\n'; the best one first */
    const char *details; /* paragraphs separated by '\n'; help wraps them; NULL = none */
    unsigned marks;
    enum weir_status (*run)(struct invocation *invocation, struct weir_error *error);
    struct argument arguments[COMMAND_ARGUMENTS_MAX]; /* ended by one without a name */
    struct flag flags[COMMAND_FLAGS_MAX];             /* ended by one without a name */
};

/* All commands, in the order of `weir help`. Static. */
const struct command *command_table(size_t *ret_count);
/* The flags that every command takes: --store --config -o --json -q -n --yes --timeout -h. Static, ended as above. */
const struct flag *command_global_flags(void);
/* By its whole name ("workflow apply"); NULL when there is none. */
const struct command *command_find(const char *name);

/* --- one call --- */

struct flag_value {
    const struct flag *flag;
    const char *text; /* as given; "" for a switch */
    int64_t number;   /* integer, or microseconds */
};

enum { INVOCATION_FLAGS_MAX = 32 };

struct invocation {
    const struct command *command;
    struct output *output;
    struct settings *settings;
    struct arena *arena;
    const char *const *arguments; /* behind the verb, without flags */
    size_t argument_count;
    struct flag_value values[INVOCATION_FLAGS_MAX];
    size_t value_count;
    bool wants_help;    /* -h: `command` or `noun` or both may be NULL */
    bool wants_version; /* --version in place of a verb */
    const char *noun;   /* "workflow", when no verb of it was named */
};

/* `name` must be a flag of the command's table row or a global one: anything else breaks an invariant. */
bool invocation_has(const struct invocation *invocation, const char *name);
/* As given; NULL when it was not. */
const char *invocation_text(const struct invocation *invocation, const char *name);
/* Of VALUE_INTEGER; VALUE_DURATION in microseconds. */
int64_t invocation_number(const struct invocation *invocation, const char *name, int64_t otherwise);
/* Of VALUE_TIME; relative ones count from `now_us`, which should be the store's time. */
int64_t invocation_time(const struct invocation *invocation, const char *name, int64_t now_us, int64_t otherwise);
/* The n-th argument behind the verb, NULL when it is not there. */
const char *invocation_argument(const struct invocation *invocation, size_t n);
bool invocation_is_dry_run(const struct invocation *invocation);
/* The actor, "cli:USER@HOST", for the record; `to` holds ACTOR_MAX bytes. */
enum { ACTOR_MAX = 128 };
void invocation_actor(char *to, size_t size);

/* The change of the command, made or planned, for -o json and jsonl: {"act": its name, FACTS..., "dry_run": bool} on
 * stdout. In a table the verb prints it on stderr, and nothing is printed here. Releases `facts`; NULL = out of memory. */
WEIR_MUST_CHECK enum weir_status invocation_print_act(const struct invocation *invocation, json_t *facts,
                                                      struct weir_error *error);

/* WEIR_INVALID_ARGUMENT with the message, and the command's usage line as the hint. */
enum weir_status invocation_usage_error(const struct invocation *invocation, struct weir_error *error, const char *format,
                                        ...) WEIR_PRINTF(3, 4);

/* How a verb wants its store. */
enum store_use {
    STORE_READ,   /* read only */
    STORE_CHANGE, /* must exist and have the right schema */
    STORE_MEND,   /* must exist, any schema: store migrate, check, plan, doctor */
    STORE_CREATE  /* made when missing, any schema: store init, dev, demo */
};
/* Opens the store that --store, WEIR_STORE or weir.yaml names, with --timeout as the deadline of its calls (not for
 * `wait`). A store that is not there: WEIR_STORE_UNREACHABLE with the command that makes one as the hint. */
WEIR_MUST_CHECK enum weir_status invocation_open_store(const struct invocation *invocation, enum store_use use,
                                                       struct store **ret_store, struct weir_error *error);

/* --- the verbs --- */

/* clang-format off */
#define COMMAND_VERB_LIST(X)                                                                                               \
    X(demo) X(dev) X(serve) X(top)                                                                                         \
    X(enqueue) X(list) X(show) X(why) X(wait) X(logs) X(cancel) X(signal) X(complete) X(retry) X(release)                  \
    X(purge)                                                                                                               \
    X(workflow_apply) X(workflow_list) X(workflow_show)                                                                    \
    X(workspace_list) X(workspace_show) X(workspace_set) X(workspace_pause) X(workspace_resume)                            \
    X(plan_list) X(plan_set)                                                                                               \
    X(pause) X(resume) X(status) X(doctor)                                                                                 \
    X(node_list) X(node_pause) X(node_resume) X(node_drain) X(lock_list) X(lock_release) X(temporal_setup)                 \
    X(temporal_doctor) X(temporal_describe) X(temporal_query) X(temporal_update)                                           \
    X(store_init) X(store_migrate) X(store_check) X(store_backup) X(store_plan)                                            \
    X(config_show) X(config_check) X(completion) X(version) X(help)
/* clang-format on */

#define COMMAND_VERB_DECLARE(name) enum weir_status verb_##name(struct invocation *invocation, struct weir_error *error);
COMMAND_VERB_LIST(COMMAND_VERB_DECLARE)
#undef COMMAND_VERB_DECLARE

#endif
