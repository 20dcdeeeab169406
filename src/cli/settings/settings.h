/* Settings: one table of keys with type, default, environment variable and meaning.
 *
 * The sources of a value; the first that has it wins:
 *   1. the flag of the command
 *   2. WEIR_... in the environment
 *   3. ./weir.yaml
 *   4. $XDG_CONFIG_HOME/weir/weir.yaml, or ~/.config/weir/weir.yaml
 *   5. /etc/weir/weir.yaml
 *   6. the default of the table
 *
 * `--config FILE` (or WEIR_CONFIG) names the one file to read instead of the three. An unknown key or a value of the wrong
 * kind is WEIR_INVALID_CONFIG with file, line and column: nothing runs on half a configuration.
 *
 * Keys are written nested or with dots:   dispatch: {poll_interval: 5s}   or   dispatch.poll_interval: 5s
 *
 * The list `nodes` makes one process several nodes, each of a group of its own. An entry has the same keys. Its values win
 * over every other source, because no other source names one node. The settings beside `nodes` give the rest:
 *
 *     nodes:
 *       - executor.group: steps
 *       - executor.group: billing
 *         engine: temporal
 *         temporal: {namespace: billing}
 *
 * Owner: the caller's arena. Threads: one while loading; any afterwards, nothing changes.
 */
#ifndef WEIR_CLI_SETTINGS_H
#define WEIR_CLI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "weir/status.h"

enum setting_id {
    SETTING_STORE,
    SETTING_ENGINE,
    SETTING_DISPATCH_BATCH_SIZE,
    SETTING_DISPATCH_POLL_INTERVAL,
    SETTING_DISPATCH_EXCLUSIVE,
    SETTING_DISPATCH_AUTOSTART,
    SETTING_CLAIM_TIMEOUT,
    SETTING_RECOVERY_INTERVAL,
    SETTING_STARTS_MAX,
    SETTING_EXECUTOR_GROUP,
    SETTING_EXECUTOR_STUCK_AFTER,
    SETTING_EXECUTOR_MAX_RUNNING,
    SETTING_EXECUTOR_CAPACITY,
    SETTING_EXECUTOR_HANDLER_THREADS,
    SETTING_EXECUTOR_MAX_PARALLEL_STEPS,
    SETTING_EXECUTOR_PARK_AFTER,
    SETTING_NODE_NAME,
    SETTING_NODE_LEASE,
    SETTING_STOP_GRACE,
    SETTING_HTTP_LISTEN,
    SETTING_HTTP_TLS_CERTIFICATE_FILE,
    SETTING_HTTP_TLS_KEY_FILE,
    SETTING_HTTP_BEHIND_PROXY,
    SETTING_HTTP_TASK_LEASE,
    SETTING_METRICS_WORKSPACES,
    SETTING_HTTP_ANONYMOUS,
    SETTING_HTTP_RATE,
    SETTING_HTTP_DASHBOARD,
    SETTING_HTTP_EMBED_ORIGINS,
    SETTING_HTTP_OIDC_ISSUER,
    SETTING_HTTP_OIDC_CLIENT_ID,
    SETTING_HTTP_OIDC_CLIENT_SECRET_FILE,
    SETTING_HTTP_OIDC_REDIRECT_URL,
    SETTING_HTTP_OIDC_SCOPES,
    SETTING_HTTP_OIDC_GROUPS_CLAIM,
    SETTING_HTTP_OIDC_PERSON_CLAIM,
    SETTING_HTTP_OIDC_GROUPS,
    SETTING_HTTP_OIDC_SESSION,
    SETTING_HTTP_OIDC_MAX_BODY_BYTES,
    SETTING_HTTP_OIDC_NAME,
    SETTING_HTTP_OIDC_CA_FILE,
    SETTING_HTTP_TOKEN_FILE,
    SETTING_HTTP_CA_FILE,
    SETTING_RETENTION,
    SETTING_LOGS_RETENTION,
    SETTING_ARCHIVE_AFTER,
    SETTING_AUDIT_RETENTION,
    SETTING_LOGS_ATTEMPT_BYTES,
    SETTING_EXEC_ALLOW,
    SETTING_EXEC_GUARD,
    SETTING_EXEC_ENV_FROM,
    SETTING_HTTP_STEP_ALLOW,
    SETTING_HTTP_STEP_CALLBACK_ADDRESS,
    SETTING_SECRETS_DIRECTORY,
    SETTING_TEMPORAL_ADDRESS,
    SETTING_TEMPORAL_NAMESPACE,
    SETTING_TEMPORAL_TASK_QUEUE,
    SETTING_TEMPORAL_STARTS_MAX,
    SETTING_TEMPORAL_WAITS_MAX,
    SETTING_TEMPORAL_ENCODING,
    SETTING_TEMPORAL_UI_URL,
    SETTING_TEMPORAL_CODEC_URL,
    SETTING_TEMPORAL_CODEC_TOKEN_FILE,
    SETTING_TEMPORAL_CODEC_CA_FILE,
    SETTING_TEMPORAL_API_KEY_FILE,
    SETTING_TEMPORAL_TLS_ENABLED,
    SETTING_TEMPORAL_TLS_CA_FILE,
    SETTING_TEMPORAL_TLS_CERTIFICATE_FILE,
    SETTING_TEMPORAL_TLS_KEY_FILE,
    SETTING_TEMPORAL_TLS_SERVER_NAME,
    SETTING_OTEL_ENDPOINT,
    SETTING_OTEL_SAMPLE,
    SETTING_LOG_FORMAT,
    SETTING_LOG_LEVEL,
    SETTING_COUNT
};

enum setting_type {
    SETTING_TEXT,
    SETTING_INTEGER,
    SETTING_DURATION, /* "10s"; `forever_ok` ones also "forever" */
    SETTING_BOOLEAN,  /* true | false */
    SETTING_RATIO,    /* 0 to 1, as "0.1" */
    SETTING_CHOICE,
    SETTING_ALLOW_LIST,   /* false | true | a list of program names or absolute paths */
    SETTING_HOST_LIST,    /* false | true | a list of hosts and networks (base/address_rules.h) */
    SETTING_VARIABLE_LIST /* a list of names of environment variables */
};

struct setting {
    const char *key;
    enum setting_type type;
    const char *default_text;
    const char *environment; /* "WEIR_STORE" */
    const char *help;
    const char *choices; /* SETTING_CHOICE, as a text */
    int64_t least;       /* SETTING_INTEGER; SETTING_DURATION in microseconds; `most` of SETTING_TEXT in bytes, 0 = 4096 */
    int64_t most;
    bool forever_ok;
    bool of_process; /* cannot differ between the nodes of one process */
};

struct setting_value {
    const char *text;   /* as written */
    const char *origin; /* "default", "WEIR_STORE", "./weir.yaml:3", "--store" */
    /* INTEGER, DURATION in microseconds (-1 = forever), BOOLEAN 0 or 1, ALLOW_LIST and HOST_LIST 1 = allowed, RATIO in
     * millionths */
    int64_t number;
    /* ALLOW_LIST, HOST_LIST: NULL-terminated; NULL = all or none; VARIABLE_LIST: NULL-terminated */
    const char *const *list;
};

enum { SETTING_RATIO_ONE = 1000000 }; /* of SETTING_RATIO */

enum { SETTINGS_NODES_MAX = 16, SETTINGS_LIST_MAX = 256 };

/* One entry of `nodes`. */
struct settings_node {
    struct setting_value values[SETTING_COUNT]; /* text NULL: not set */
};

struct settings {
    struct arena *arena;
    struct setting_value values[SETTING_COUNT];
    struct settings_node *nodes; /* as many as node_count, each with an executor.group of its own */
    size_t node_count;           /* 0 = the process is one node, with `values` */
    const char *files[3];        /* that were read, the strongest first; NULL = none */
};

/* The table; SETTING_COUNT rows, index = id. */
const struct setting *settings_table(void);
/* The id of a key; SETTING_COUNT when there is none. */
enum setting_id settings_find(const char *key);

/* Sets all defaults, reads the files and the environment. `config_file` NULL = the three places. */
WEIR_MUST_CHECK enum weir_status settings_load(struct settings *settings, struct arena *arena, const char *config_file,
                                               struct weir_error *error);
/* Overrides one value, checked like any other; `origin` is kept by pointer. */
WEIR_MUST_CHECK enum weir_status settings_set(struct settings *settings, enum setting_id id, const char *text,
                                              const char *origin, struct weir_error *error);

/* The settings of one entry of `nodes`, complete: they have no nodes themselves. `index` < node_count. */
struct settings settings_of_node(const struct settings *settings, size_t index);
/* The entry of `nodes` that serves the group, NULL when none does. `group` may be NULL. */
const struct settings_node *settings_entry_of(const struct settings *settings, const char *group);
/* Of the entry that serves the group; where none does, the settings beside `nodes`. `group` may be NULL. */
struct settings settings_of_group(const struct settings *settings, const char *group);

const char *settings_text(const struct settings *settings, enum setting_id id);         /* "" when empty */
const char *settings_text_or_null(const struct settings *settings, enum setting_id id); /* NULL when empty */
int64_t settings_number(const struct settings *settings, enum setting_id id);
/* Of exec.allow and http_step.allow: NULL when all programs or hosts are allowed, or none (settings_number() distinguishes
 * them). */
const char *const *settings_list(const struct settings *settings, enum setting_id id);

#endif
