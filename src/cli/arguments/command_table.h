/* The command line as data: parsing, help, man pages, completion and docs/commands.md are made from one table of commands
 * and flags.
 *
 *     argv --command_parse()--> struct invocation --command->run()--> status --main.c--> one error line, exit code
 *
 * To add a verb: declare its function below, add a row to command_table.c, write it in verbs/verb_NAME.c (verbs/verb.h).
 * All of it is static; any thread may read it.
 */
#ifndef WEIR_CLI_ARGUMENTS_COMMAND_TABLE_H
#define WEIR_CLI_ARGUMENTS_COMMAND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/settings/settings.h"
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
    bool many;        /* it may be given several times */
    bool has_setting; /* it overrides `setting` (settings.h), for this call */
    enum setting_id setting;
};

struct argument {
    const char *name; /* "WORKFLOW"; NULL ends the list */
    const char *help;
    bool optional;
    bool many; /* takes all that is left; only the last one */
};

enum { COMMAND_ARGUMENTS_MAX = 2, COMMAND_FLAGS_MAX = 16 };

/* Marks of a command. */
enum command_mark {
    COMMAND_CHANGES = 1 << 0,     /* changes the store, so it has --dry-run */
    COMMAND_NO_DRY_RUN = 1 << 1,  /* --dry-run is refused: there is nothing that it could mean */
    COMMAND_NO_SETTINGS = 1 << 2, /* works with any weir.yaml */
    COMMAND_NO_TIMEOUT = 1 << 3   /* --timeout is refused: the command runs until it is stopped */
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
/* "weir enqueue -w NAME WORKFLOW [flags]" for the command; `to` holds `size` bytes. */
void command_usage(const struct command *command, char *to, size_t size);

/* --- the verbs --- */

/* clang-format off */
#define COMMAND_VERB_LIST(X)                                                                                               \
    X(demo) X(dev) X(serve) X(top)                                                                                         \
    X(enqueue) X(list) X(show) X(why) X(wait) X(logs) X(cancel) X(signal) X(complete) X(retry) X(release) X(wake)          \
    X(approve) X(reject) X(callback_complete) X(callback_fail) X(update) X(dismiss) X(failures) X(purge)                   \
    X(workflow_apply) X(workflow_list) X(workflow_show)                                                                    \
    X(workspace_list) X(workspace_show) X(workspace_set) X(workspace_pause) X(workspace_resume) X(workspace_rename)        \
    X(workspace_delete) X(workflow_disable) X(workflow_enable) X(workflow_delete) X(workflow_migrate)                      \
    X(plan_list) X(plan_set)                                                                                               \
    X(pause) X(resume) X(status) X(doctor) X(audit)                                                                        \
    X(node_list) X(worker_list) X(node_pause) X(node_resume) X(node_drain) X(lock_list) X(lock_release)                    \
    X(token_create) X(token_list) X(token_revoke)                                                              \
    X(hook_list) X(hook_set) X(webhook_set) X(hook_pause) X(hook_resume) X(hook_delete)                                    \
    X(schedule_list) X(schedule_show) X(schedule_set) X(schedule_next) X(schedule_trigger) X(schedule_pause)               \
    X(schedule_resume) X(schedule_delete)                                                                                  \
    X(temporal_setup) X(temporal_doctor) X(temporal_describe) X(temporal_query) X(temporal_update)                         \
    X(import) X(store_init) X(store_migrate) X(store_check) X(store_backup) X(store_plan)                                  \
    X(config_show) X(config_check) X(completion) X(version) X(help)
/* clang-format on */

#define COMMAND_VERB_DECLARE(name) enum weir_status verb_##name(struct invocation *invocation, struct weir_error *error);
COMMAND_VERB_LIST(COMMAND_VERB_DECLARE)
#undef COMMAND_VERB_DECLARE

#endif
