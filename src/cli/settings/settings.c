/* The table of settings and the order of their sources.
 *
 * settings_load() sets every default, then reads the files from the weakest to the strongest, then the environment; each
 * later source replaces a value. Flags come last, by settings_set() in main.c. settings_set() is the one place that
 * checks a value, so that every source obeys the same limits.
 *
 * An invalid value ends the load with its origin in the message: a program must never run on half a configuration.
 * Loading belongs to one thread; afterwards the values are constant.
 */
#include "cli/settings/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/address_rules.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/settings/settings_file.h"
#include "cli/settings/temporal_profile.h"
#include "queue/limits.h"

enum { SETTING_TEXT_BYTES_MAX = 4096 };

#define MINUTE_US (60 * MICROSECONDS_PER_SECOND)
#define DAY_US (24 * 60 * MINUTE_US)
#define YEAR_US (365 * DAY_US)

/* clang-format off */
static const struct setting table[SETTING_COUNT] = {
/* The store and the engine. */
[SETTING_STORE] = {
    .key = "store", .type = SETTING_TEXT, .default_text = "sqlite:./weir.db", .environment = "WEIR_STORE",
    .of_process = true,
    .help = "where the queue is kept: sqlite:PATH, a path, or postgres://..., or a server: http://HOST:PORT"},
[SETTING_ENGINE] = {
    .key = "engine", .type = SETTING_CHOICE, .default_text = "in_process", .environment = "WEIR_ENGINE",
    .choices = "in_process temporal", .help = "the engine that runs executions"},
/* The assignment of work to a node. */
[SETTING_DISPATCH_BATCH_SIZE] = {
    .key = "dispatch.batch_size", .type = SETTING_INTEGER, .default_text = "0", .environment = "WEIR_DISPATCH_BATCH_SIZE",
    .least = 0, .most = CLAIM_BATCH_MOST,
    .help = "executions that a node takes at once; 0 = as many as its free capacity"},
[SETTING_DISPATCH_POLL_INTERVAL] = {
    .key = "dispatch.poll_interval", .type = SETTING_DURATION, .default_text = "5s",
    .environment = "WEIR_DISPATCH_POLL_INTERVAL", .least = 10 * MICROSECONDS_PER_MS, .most = 60 * MINUTE_US,
    .help = "poll for work at least this often; a wake-up comes earlier"},
[SETTING_DISPATCH_EXCLUSIVE] = {
    .key = "dispatch.exclusive", .type = SETTING_BOOLEAN, .default_text = "false", .environment = "WEIR_DISPATCH_EXCLUSIVE",
    .of_process = true, .help = "assign only while holding the lock processExecutionQueue"},
[SETTING_DISPATCH_AUTOSTART] = {
    .key = "dispatch.autostart", .type = SETTING_BOOLEAN, .default_text = "true", .environment = "WEIR_DISPATCH_AUTOSTART",
    .help = "false: the node starts paused, answers requests, and takes executions after `weir node resume`"},
/* Recovery, and the starts of an execution. */
[SETTING_CLAIM_TIMEOUT] = {
    .key = "claim.timeout", .type = SETTING_DURATION, .default_text = "5m", .environment = "WEIR_CLAIM_TIMEOUT",
    .least = 10 * MICROSECONDS_PER_SECOND, .most = DAY_US, .of_process = true,
    .help = "an execution that was assigned this long ago and has not started is given back"},
[SETTING_RECOVERY_INTERVAL] = {
    .key = "recovery.interval", .type = SETTING_DURATION, .default_text = "1m", .environment = "WEIR_RECOVERY_INTERVAL",
    .least = MICROSECONDS_PER_SECOND, .most = 60 * MINUTE_US, .of_process = true,
    .help = "how often a node checks for such executions"},
[SETTING_STARTS_MAX] = {
    .key = "starts.max", .type = SETTING_INTEGER, .default_text = "3", .environment = "WEIR_STARTS_MAX",
    .least = 1, .most = 100, .help = "starts that an engine may refuse before the execution fails"},
/* The executions that a node runs. */
[SETTING_EXECUTOR_GROUP] = {
    .key = "executor.group", .type = SETTING_TEXT, .default_text = "default", .environment = "WEIR_EXECUTOR_GROUP",
    .most = GROUP_NAME_MAX,
    .help = "the group that a node serves; `enqueue` uses it when the workflow names none"},
[SETTING_EXECUTOR_STUCK_AFTER] = {
    .key = "executor.stuck_after", .type = SETTING_DURATION, .default_text = "60s",
    .environment = "WEIR_EXECUTOR_STUCK_AFTER", .least = 10 * MICROSECONDS_PER_MS, .most = YEAR_US,
    .help = "warn of executions that run longer"},
[SETTING_EXECUTOR_MAX_RUNNING] = {
    .key = "executor.max_running", .type = SETTING_INTEGER, .default_text = "1000",
    .environment = "WEIR_EXECUTOR_MAX_RUNNING", .least = 1, .most = 100000,
    .help = "executions that run in a node at once"},
[SETTING_EXECUTOR_CAPACITY] = {
    .key = "executor.capacity", .type = SETTING_CHOICE, .default_text = "own", .environment = "WEIR_EXECUTOR_CAPACITY",
    .choices = "own workers",
    .help = "own = executor.max_running; workers = the places of its workers over HTTP, at most executor.max_running"},
[SETTING_EXECUTOR_HANDLER_THREADS] = {
    .key = "executor.handler_threads", .type = SETTING_INTEGER, .default_text = "0",
    .environment = "WEIR_EXECUTOR_HANDLER_THREADS", .least = 0, .most = 256,
    .help = "threads for handlers in C; 0 = one more than there are processors"},
[SETTING_EXECUTOR_MAX_PARALLEL_STEPS] = {
    .key = "executor.max_parallel_steps", .type = SETTING_INTEGER, .default_text = "32",
    .environment = "WEIR_EXECUTOR_MAX_PARALLEL_STEPS", .least = 1, .most = 200,
    .help = "steps of one execution that are under way at once"},
[SETTING_EXECUTOR_PARK_AFTER] = {
    .key = "executor.park_after", .type = SETTING_DURATION, .default_text = "1s", .environment = "WEIR_EXECUTOR_PARK_AFTER",
    .least = MICROSECONDS_PER_MS, .most = 10 * YEAR_US,
    .help = "an execution that only waits, for longer than this, gives its slot back meanwhile"},
/* The life of a node. */
[SETTING_NODE_NAME] = {
    .key = "node.name", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_NODE_NAME",
    .most = NODE_NAME_MAX,
    .help = "name of the node; empty = host and process; each of several `nodes` adds its group"},
[SETTING_NODE_LEASE] = {
    .key = "node.lease", .type = SETTING_DURATION, .default_text = "6s", .environment = "WEIR_NODE_LEASE",
    .least = 500 * MICROSECONDS_PER_MS, .most = 10 * MINUTE_US,
    .help = "a node without a heartbeat for longer counts as dead"},
[SETTING_STOP_GRACE] = {
    .key = "stop.grace", .type = SETTING_DURATION, .default_text = "25s", .environment = "WEIR_STOP_GRACE",
    .least = 0, .most = DAY_US, .of_process = true,
    .help = "a stopping node waits this long for running executions"},
/* The address is checked when the listener opens: only server/listen_address.c knows the forms. */
[SETTING_HTTP_LISTEN] = {
    .key = "http.listen", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_HTTP_LISTEN", .of_process = true,
    .help = "answer HTTP there: 127.0.0.1:7717, https://0.0.0.0:7717, unix:PATH, systemd; several with commas; or none"},
[SETTING_HTTP_TLS_CERTIFICATE_FILE] = {
    .key = "http.tls.certificate_file", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_TLS_CERTIFICATE_FILE", .of_process = true,
    .help = "file with the certificate of https:// addresses and its chain; a reload reads it again"},
[SETTING_HTTP_TLS_KEY_FILE] = {
    .key = "http.tls.key_file", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_HTTP_TLS_KEY_FILE",
    .of_process = true, .help = "file with the key of that certificate"},
[SETTING_HTTP_BEHIND_PROXY] = {
    .key = "http.behind_proxy", .type = SETTING_BOOLEAN, .default_text = "false", .environment = "WEIR_HTTP_BEHIND_PROXY",
    .of_process = true, .help = "a proxy in front of http.listen has TLS, so other machines may reach it without"},
[SETTING_HTTP_TASK_LEASE] = {
    .key = "http.task_lease", .type = SETTING_DURATION, .default_text = "10s", .environment = "WEIR_HTTP_TASK_LEASE",
    .least = MICROSECONDS_PER_SECOND, .most = 10 * MINUTE_US, .of_process = true,
    .help = "a worker over HTTP that sends no heartbeat for longer loses its tasks"},
[SETTING_METRICS_WORKSPACES] = {
    .key = "metrics.workspaces", .type = SETTING_CHOICE, .default_text = "top", .environment = "WEIR_METRICS_WORKSPACES",
    .choices = "top all off", .of_process = true,
    .help = "workspaces with metrics of their own: top = the 100 under most pressure, all, off"},
/* The two below: server/access.h. */
[SETTING_HTTP_ANONYMOUS] = {
    .key = "http.anonymous", .type = SETTING_BOOLEAN, .default_text = "false", .environment = "WEIR_HTTP_ANONYMOUS",
    .of_process = true, .help = "this machine needs no token, although the store has some"},
[SETTING_HTTP_RATE] = {
    .key = "http.rate", .type = SETTING_INTEGER, .default_text = "0", .environment = "WEIR_HTTP_RATE", .least = 0,
    .most = 1000000, .of_process = true, .help = "requests per second of one token; 0 = any number"},
[SETTING_HTTP_DASHBOARD] = {
    .key = "http.dashboard", .type = SETTING_BOOLEAN, .default_text = "true", .environment = "WEIR_HTTP_DASHBOARD",
    .of_process = true, .help = "browsers that ask for / get the dashboard"},
/* The origins are checked when the listener opens: server/embed_policy.h. */
[SETTING_HTTP_EMBED_ORIGINS] = {
    .key = "http.embed_origins", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_HTTP_EMBED_ORIGINS",
    .of_process = true,
    .help = "sites whose pages may show the box of a workspace: https://app.example.com; several with commas"},
/* Sign-in by a provider. server/oidc.c checks them when the listener opens, so that a mistake ends the start and not the
 * sign-in of a person. No setting holds the secret: `weir config show` prints all of them, and the environment of a
 * process can be read by others of its user. The secret has a file, which is read for each sign-in. */
[SETTING_HTTP_OIDC_ISSUER] = {
    .key = "http.oidc.issuer", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_OIDC_ISSUER", .of_process = true,
    .help = "people sign in to the dashboard by this OpenID provider: https://login.example.com; empty = by tokens alone"},
[SETTING_HTTP_OIDC_CLIENT_ID] = {
    .key = "http.oidc.client_id", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_OIDC_CLIENT_ID", .of_process = true,
    .help = "the id of weir as a client of the provider"},
[SETTING_HTTP_OIDC_CLIENT_SECRET_FILE] = {
    .key = "http.oidc.client_secret_file", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_OIDC_CLIENT_SECRET_FILE", .of_process = true,
    .help = "file with the secret of that client, or env:NAME of a variable; empty = a client without a secret"},
[SETTING_HTTP_OIDC_REDIRECT_URL] = {
    .key = "http.oidc.redirect_url", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_OIDC_REDIRECT_URL", .of_process = true,
    .help = "where browsers come back: https://weir.example.com/v1/oidc_callback, as the provider has registered it"},
[SETTING_HTTP_OIDC_SCOPES] = {
    .key = "http.oidc.scopes", .type = SETTING_TEXT, .default_text = "openid email",
    .environment = "WEIR_HTTP_OIDC_SCOPES", .of_process = true,
    .help = "the scopes that weir asks for, with blanks between them; some providers have groups"},
[SETTING_HTTP_OIDC_GROUPS_CLAIM] = {
    .key = "http.oidc.groups_claim", .type = SETTING_TEXT, .default_text = "groups",
    .environment = "WEIR_HTTP_OIDC_GROUPS_CLAIM", .of_process = true,
    .help = "the claim of the ID token with the groups of a person; a dot leads into an object"},
[SETTING_HTTP_OIDC_PERSON_CLAIM] = {
    .key = "http.oidc.person_claim", .type = SETTING_TEXT, .default_text = "email",
    .environment = "WEIR_HTTP_OIDC_PERSON_CLAIM", .of_process = true,
    .help = "the claim by which the record of acts names a person; an email that is not verified does not count"},
[SETTING_HTTP_OIDC_GROUPS] = {
    .key = "http.oidc.groups", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_OIDC_GROUPS", .of_process = true,
    .help = "rights of groups: GROUP=ROLE; GROUP=ROLE:WORKSPACE,WORKSPACE; the first entry that a person has counts"},
[SETTING_HTTP_OIDC_SESSION] = {
    .key = "http.oidc.session", .type = SETTING_DURATION, .default_text = "8h", .environment = "WEIR_HTTP_OIDC_SESSION",
    .least = MICROSECONDS_PER_SECOND, .most = 30 * DAY_US, .of_process = true,
    .help = "a session of a person ends so long after the sign-in, and new groups count with the next one"},
/* At most TOKEN_BODY_BYTES_MOST (store/tokens.h). */
[SETTING_HTTP_OIDC_MAX_BODY_BYTES] = {
    .key = "http.oidc.max_body_bytes", .type = SETTING_INTEGER, .default_text = "0",
    .environment = "WEIR_HTTP_OIDC_MAX_BODY_BYTES", .least = 0, .most = INT64_C(16) * 1024 * 1024, .of_process = true,
    .help = "the largest body of a request in a session of a person; 0 = as large as the server takes it"},
[SETTING_HTTP_OIDC_NAME] = {
    .key = "http.oidc.name", .type = SETTING_TEXT, .default_text = "the provider",
    .environment = "WEIR_HTTP_OIDC_NAME", .of_process = true,
    .help = "the name of the provider on the button"},
[SETTING_HTTP_OIDC_CA_FILE] = {
    .key = "http.oidc.ca_file", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_OIDC_CA_FILE", .of_process = true,
    .help = "certificates of the authority of the provider; empty = those of the system"},
/* Of a server as the store. */
[SETTING_HTTP_TOKEN_FILE] = {
    .key = "http.token_file", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_TOKEN_FILE",
    .of_process = true, .help = "file with the token for a server as the store; without, the variable WEIR_TOKEN"},
[SETTING_HTTP_CA_FILE] = {
    .key = "http.ca_file", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_CA_FILE", .of_process = true,
    .help = "certificates of the authority of a server with https://; empty = those of the system"},
[SETTING_RETENTION] = {
    .key = "retention", .type = SETTING_DURATION, .default_text = "14d", .environment = "WEIR_RETENTION",
    .least = MICROSECONDS_PER_SECOND, .most = 100 * YEAR_US, .forever_ok = true,
    .of_process = true, .help = "how long ended executions are kept, or forever"},
[SETTING_ARCHIVE_AFTER] = {
    .key = "archive.after", .type = SETTING_DURATION, .default_text = "forever", .environment = "WEIR_ARCHIVE_AFTER",
    .least = MICROSECONDS_PER_SECOND, .most = 100 * YEAR_US, .forever_ok = true, .of_process = true,
    .help = "so long after its end the content of an execution moves to the archive; forever = never"},
[SETTING_LOGS_RETENTION] = {
    .key = "logs.retention", .type = SETTING_DURATION, .default_text = "14d", .environment = "WEIR_LOGS_RETENTION",
    .least = MICROSECONDS_PER_SECOND, .most = 100 * YEAR_US, .forever_ok = true,
    .of_process = true, .help = "how long the output of steps is kept; forever = as long as the execution"},
[SETTING_AUDIT_RETENTION] = {
    .key = "audit.retention", .type = SETTING_DURATION, .default_text = "365d", .environment = "WEIR_AUDIT_RETENTION",
    .least = MICROSECONDS_PER_SECOND, .most = 100 * YEAR_US, .forever_ok = true,
    .of_process = true, .help = "how long acts are kept on record, or forever"},
[SETTING_LOGS_ATTEMPT_BYTES] = {
    .key = "logs.attempt_bytes", .type = SETTING_INTEGER, .default_text = "1048576",
    .environment = "WEIR_LOGS_ATTEMPT_BYTES", .least = 0, .most = LOG_ATTEMPT_BYTES_MOST, .of_process = true,
    .help = "output that is kept of one attempt of a step, in bytes; 0 = none"},
/* Steps that run programs, and steps that send requests. */
[SETTING_EXEC_ALLOW] = {
    .key = "exec.allow", .type = SETTING_ALLOW_LIST, .default_text = "false", .environment = "WEIR_EXEC_ALLOW",
    .help = "programs that steps may run: false, true, or a list"},
[SETTING_EXEC_GUARD] = {
    .key = "exec.guard", .type = SETTING_BOOLEAN, .default_text = "true", .environment = "WEIR_EXEC_GUARD",
    .help = "steps cannot signal their node or its keeper"},
[SETTING_EXEC_ENV_FROM] = {
    .key = "exec.env_from", .type = SETTING_VARIABLE_LIST, .default_text = "", .environment = "WEIR_EXEC_ENV_FROM",
    .help = "variables of the node's environment that steps may ask for by `env_from`"},
[SETTING_HTTP_STEP_ALLOW] = {
    .key = "http_step.allow", .type = SETTING_HOST_LIST, .default_text = "false", .environment = "WEIR_HTTP_STEP_ALLOW",
    .help = "hosts and networks that http steps may reach: false, true for all public addresses, or a list"},
/* Its form is checked by engine/in_process/runner_options.c, which builds the header of it. */
[SETTING_HTTP_STEP_CALLBACK_ADDRESS] = {
    .key = "http_step.callback_address", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_HTTP_STEP_CALLBACK_ADDRESS",
    .help = "where functions that http steps call reach a listener, for Weir-Callback-Url: https://weir.example.com"},
[SETTING_SECRETS_DIRECTORY] = {
    .key = "secrets.directory", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_SECRETS_DIRECTORY",
    .help = "folder with one file for each secret of steps; its name is the secret's"},
/* The Temporal service. No setting holds a key or a token: files and variables do. */
[SETTING_TEMPORAL_ADDRESS] = {
    .key = "temporal.address", .type = SETTING_TEXT, .default_text = "127.0.0.1:7233",
    .environment = "WEIR_TEMPORAL_ADDRESS",
    .help = "where the Temporal service is: host:port, several with commas"},
[SETTING_TEMPORAL_NAMESPACE] = {
    .key = "temporal.namespace", .type = SETTING_TEXT, .default_text = "default", .environment = "WEIR_TEMPORAL_NAMESPACE",
    .help = "the namespace of its workflows"},
[SETTING_TEMPORAL_TASK_QUEUE] = {
    .key = "temporal.task_queue", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_TEMPORAL_TASK_QUEUE",
    .help = "task queue of workflows that name none"},
[SETTING_TEMPORAL_STARTS_MAX] = {
    .key = "temporal.starts_max", .type = SETTING_INTEGER, .default_text = "64", .environment = "WEIR_TEMPORAL_STARTS_MAX",
    .least = 1, .most = 10000, .help = "starts under way at once"},
[SETTING_TEMPORAL_WAITS_MAX] = {
    .key = "temporal.waits_max", .type = SETTING_INTEGER, .default_text = "120", .environment = "WEIR_TEMPORAL_WAITS_MAX",
    .least = 0, .most = 1000,
    .help = "workflows with a call of their own that waits for the end; the others are listed each second"},
[SETTING_TEMPORAL_ENCODING] = {
    .key = "temporal.encoding", .type = SETTING_TEXT, .default_text = "json/plain", .environment = "WEIR_TEMPORAL_ENCODING",
    .help = "encoding in the metadata of the input payload"},
[SETTING_TEMPORAL_UI_URL] = {
    .key = "temporal.ui_url", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_TEMPORAL_UI_URL",
    .help = "URL of the Temporal UI, for the links of `weir show`"},
[SETTING_TEMPORAL_CODEC_URL] = {
    .key = "temporal.codec_url", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_TEMPORAL_CODEC_URL",
    .help = "a payload codec for input, results and failures: POST URL/encode and URL/decode"},
[SETTING_TEMPORAL_CODEC_TOKEN_FILE] = {
    .key = "temporal.codec_token_file", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_TEMPORAL_CODEC_TOKEN_FILE",
    .help = "file with the bearer token for the codec, or env:NAME of a variable"},
[SETTING_TEMPORAL_CODEC_CA_FILE] = {
    .key = "temporal.codec_ca_file", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_TEMPORAL_CODEC_CA_FILE",
    .help = "authorities to trust for the codec (PEM); empty = the system's"},
[SETTING_TEMPORAL_API_KEY_FILE] = {
    .key = "temporal.api_key_file", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_TEMPORAL_API_KEY_FILE",
    .help = "file with the API key, or env:NAME of a variable; implies TLS"},
[SETTING_TEMPORAL_TLS_ENABLED] = {
    .key = "temporal.tls.enabled", .type = SETTING_BOOLEAN, .default_text = "false",
    .environment = "WEIR_TEMPORAL_TLS_ENABLED",
    .help = "use TLS; the four settings below imply it"},
[SETTING_TEMPORAL_TLS_CA_FILE] = {
    .key = "temporal.tls.ca_file", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_TEMPORAL_TLS_CA_FILE",
    .help = "authorities to trust (PEM); empty = the system's"},
[SETTING_TEMPORAL_TLS_CERTIFICATE_FILE] = {
    .key = "temporal.tls.certificate_file", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_TEMPORAL_TLS_CERTIFICATE_FILE",
    .help = "certificate of the client (PEM)"},
[SETTING_TEMPORAL_TLS_KEY_FILE] = {
    .key = "temporal.tls.key_file", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_TEMPORAL_TLS_KEY_FILE",
    .help = "key of the certificate (PEM)"},
[SETTING_TEMPORAL_TLS_SERVER_NAME] = {
    .key = "temporal.tls.server_name", .type = SETTING_TEXT, .default_text = "",
    .environment = "WEIR_TEMPORAL_TLS_SERVER_NAME",
    .help = "name that the server's certificate must have"},
/* Traces. The URL is checked when the exporter opens. */
[SETTING_OTEL_ENDPOINT] = {
    .key = "otel.endpoint", .type = SETTING_TEXT, .default_text = "", .environment = "WEIR_OTEL_ENDPOINT",
    .of_process = true,
    .help = "a collector of OpenTelemetry that gets the spans, by OTLP over HTTP: http://127.0.0.1:4318"},
[SETTING_OTEL_SAMPLE] = {
    .key = "otel.sample", .type = SETTING_RATIO, .default_text = "1", .environment = "WEIR_OTEL_SAMPLE",
    .of_process = true,
    .help = "the part of the executions that is traced, 0 to 1; a traceparent of the caller goes before it"},
/* The log. */
[SETTING_LOG_FORMAT] = {
    .key = "log.format", .type = SETTING_CHOICE, .default_text = "auto", .environment = "WEIR_LOG_FORMAT",
    .choices = "auto text json", .of_process = true, .help = "auto = text on a terminal, else JSON lines"},
[SETTING_LOG_LEVEL] = {
    .key = "log.level", .type = SETTING_CHOICE, .default_text = "info", .environment = "WEIR_LOG_LEVEL",
    .choices = "debug info warn error", .of_process = true, .help = "the lowest level that is logged"},
};
/* clang-format on */

const struct setting *settings_table(void)
{
    return table;
}

enum setting_id settings_find(const char *key)
{
    unsigned id = 0;
    while (id < SETTING_COUNT && strcmp(table[id].key, key) != 0) {
        id++;
    }
    return (enum setting_id)id;
}

/* --- one value --- */

/* A decimal number within the limits of the setting. */
static enum weir_status read_integer_setting(const struct setting *setting, const char *text, int64_t *ret_number,
                                             struct weir_error *error)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (text[0] == '\0' || *end != '\0' || errno != 0 || number < setting->least || number > setting->most) {
        return error_set(error, WEIR_INVALID_CONFIG, "%s: \"%s\" is not a whole number from %" PRId64 " to %" PRId64,
                         setting->key, text, setting->least, setting->most);
    }
    *ret_number = number;
    return WEIR_OK;
}

/* Reads a duration within the limits of the setting, or "forever" where it is allowed. */
static enum weir_status read_duration_setting(const struct setting *setting, const char *text, int64_t *ret_number,
                                              struct weir_error *error)
{
    char least[DURATION_TEXT_MAX];
    char most[DURATION_TEXT_MAX];
    if (setting->forever_ok && strcmp(text, "forever") == 0) {
        *ret_number = -1;
        return WEIR_OK;
    }
    int64_t number = 0;
    enum weir_status status = duration_parse(text, &number, error);
    if (status != WEIR_OK) {
        error_prefix(error, "%s", setting->key);
        return WEIR_INVALID_CONFIG;
    }
    if (number < setting->least || number > setting->most) {
        duration_format(setting->least, least);
        duration_format(setting->most, most);
        return error_set(error, WEIR_INVALID_CONFIG, "%s: %s is not between %s and %s", setting->key, text, least, most);
    }
    *ret_number = number;
    return WEIR_OK;
}

/* Reads "true" or "false"; other spellings are refused, so that a file has one. */
static enum weir_status read_boolean_setting(const struct setting *setting, const char *text, int64_t *ret_number,
                                             struct weir_error *error)
{
    bool is_true = strcmp(text, "true") == 0;
    if (!is_true && strcmp(text, "false") != 0) {
        return error_set(error, WEIR_INVALID_CONFIG, "%s: \"%s\" is neither true nor false", setting->key, text);
    }
    *ret_number = is_true;
    return WEIR_OK;
}

/* A decimal number from 0 to 1, in millionths. */
static enum weir_status read_ratio_setting(const struct setting *setting, const char *text, int64_t *ret_number,
                                           struct weir_error *error)
{
    char *end = NULL;
    bool is_plain = text[0] != '\0' && text[strspn(text, "0123456789.")] == '\0';
    double ratio = is_plain ? strtod(text, &end) : -1;
    if (!is_plain || *end != '\0' || ratio < 0 || ratio > 1) {
        return error_set(error, WEIR_INVALID_CONFIG, "%s: \"%s\" is not a number from 0 to 1", setting->key, text);
    }
    *ret_number = (int64_t)(ratio * SETTING_RATIO_ONE + 0.5);
    return WEIR_OK;
}

/* Cuts `text` in place at any character of `separators`; pointers to the parts, SETTINGS_LIST_MAX at most, go to a
 * NULL-terminated list. *ret_all (may be NULL): whether that was all of them. */
static const char **split_list(struct arena *arena, const char *text, const char *separators, bool *ret_all)
{
    char *copy = arena_copy_string(arena, text);
    const char **words = arena_allocate(arena, (SETTINGS_LIST_MAX + 1) * sizeof *words);
    char *rest = NULL;
    size_t count = 0;
    if (copy == NULL || words == NULL) {
        return NULL;
    }
    char *word = strtok_r(copy, separators, &rest);
    for (; word != NULL && count < SETTINGS_LIST_MAX; word = strtok_r(NULL, separators, &rest)) {
        words[count++] = word;
    }
    if (ret_all != NULL) {
        *ret_all = word == NULL;
    }
    return words;
}

/* Checks that the text is one of the choices of the setting. */
static enum weir_status check_choice(struct settings *settings, const struct setting *setting, const char *text,
                                     struct weir_error *error)
{
    const char **words = split_list(settings->arena, setting->choices, " ", NULL);
    size_t count = 0;
    if (words == NULL) {
        return error_out_of_memory(error);
    }
    for (; words[count] != NULL; count++) {
        if (strcmp(words[count], text) == 0) {
            return WEIR_OK;
        }
    }
    const char *nearest = text_nearest(text, words, count);
    error_set(error, WEIR_INVALID_CONFIG, "%s: \"%s\" is not one of: %s", setting->key, text, setting->choices);
    if (nearest != NULL) {
        error_hint(error, "did you mean %s?", nearest);
    }
    return WEIR_INVALID_CONFIG;
}

/* Whether other programs take the text for true or false. In exec.allow it would be the name of the only allowed
 * program. */
static bool is_other_boolean(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* Reads exec.allow: true, false, or a list of program names and absolute paths. */
static enum weir_status read_allow_list(struct settings *settings, struct setting_value *value, struct weir_error *error)
{
    if (strcmp(value->text, "false") == 0 || strcmp(value->text, "true") == 0) {
        value->number = value->text[0] == 't';
        return WEIR_OK;
    }
    if (is_other_boolean(value->text)) {
        error_set(error, WEIR_INVALID_CONFIG, "exec.allow: \"%s\" is neither true nor false nor a list of programs",
                  value->text);
        error_hint(error, "true allows all programs, false none, [wc, /usr/bin/env] only these");
        return WEIR_INVALID_CONFIG;
    }
    bool is_all = false;
    const char **words = split_list(settings->arena, value->text, ", ", &is_all);
    if (words == NULL) {
        return error_out_of_memory(error);
    }
    if (!is_all) {
        error_set(error, WEIR_INVALID_CONFIG, "exec.allow: more than %d programs", SETTINGS_LIST_MAX);
        error_hint(error, "true allows all programs");
        return WEIR_INVALID_CONFIG;
    }
    for (const char **word = words; *word != NULL; word++) {
        if ((*word)[0] != '/' && strchr(*word, '/') != NULL) {
            error_set(error, WEIR_INVALID_CONFIG,
                      "exec.allow: \"%s\" is a relative path, so the `cwd` of a step would decide which program it is",
                      *word);
            error_hint(error, "write an absolute path, or a name that PATH finds");
            return WEIR_INVALID_CONFIG;
        }
    }
    value->number = words[0] != NULL;
    value->list = words;
    return WEIR_OK;
}

/* Reads http_step.allow: true, false, or a list of hosts and networks. */
static enum weir_status read_host_list(struct settings *settings, struct setting_value *value, struct weir_error *error)
{
    struct address_rules rules; /* opened for its checks alone; the engine opens its own */
    if (strcmp(value->text, "false") == 0 || strcmp(value->text, "true") == 0) {
        value->number = value->text[0] == 't';
        return WEIR_OK;
    }
    if (is_other_boolean(value->text)) {
        error_set(error, WEIR_INVALID_CONFIG, "http_step.allow: \"%s\" is neither true nor false nor a list of hosts",
                  value->text);
        error_hint(error, "true allows all public addresses, false none, [api.example.com, 10.1.0.0/16] only these");
        return WEIR_INVALID_CONFIG;
    }
    bool is_all = false;
    const char **words = split_list(settings->arena, value->text, ", ", &is_all);
    if (words == NULL) {
        return error_out_of_memory(error);
    }
    if (!is_all) {
        return error_set(error, WEIR_INVALID_CONFIG, "http_step.allow: more than %d hosts and networks", SETTINGS_LIST_MAX);
    }
    enum weir_status status = address_rules_open(&rules, words, error);
    address_rules_close(&rules);
    if (status == WEIR_INVALID_ARGUMENT) {
        error_prefix(error, "http_step.allow");
        status = WEIR_INVALID_CONFIG;
        error->status = status;
    }
    value->number = words[0] != NULL;
    value->list = words;
    return status;
}

/* Reads exec.env_from: names of environment variables. */
static enum weir_status read_variable_list(struct settings *settings, const struct setting *setting,
                                           struct setting_value *value, struct weir_error *error)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    bool is_all = false;
    const char **words = split_list(settings->arena, value->text, ", ", &is_all);
    if (words == NULL) {
        return error_out_of_memory(error);
    }
    if (!is_all) {
        return error_set(error, WEIR_INVALID_CONFIG, "%s: more than %d names", setting->key, SETTINGS_LIST_MAX);
    }
    for (const char **word = words; *word != NULL; word++) {
        if (((*word)[0] >= '0' && (*word)[0] <= '9') || (*word)[strspn(*word, letters)] != '\0') {
            error_set(error, WEIR_INVALID_CONFIG, "%s: \"%s\" is no name of an environment variable", setting->key, *word);
            error_hint(error, "write %s: [HTTPS_PROXY, TZ]", setting->key);
            return WEIR_INVALID_CONFIG;
        }
    }
    value->list = words;
    return WEIR_OK;
}

/* The maximum of a text, which a setting may lower. */
static int text_bytes_max(const struct setting *setting)
{
    return setting->most > 0 ? (int)setting->most : SETTING_TEXT_BYTES_MAX;
}

enum weir_status settings_set(struct settings *settings, enum setting_id id, const char *text, const char *origin,
                              struct weir_error *error)
{
    INVARIANT(id < SETTING_COUNT);
    const struct setting *setting = &table[id];
    struct setting_value value = {.text = arena_copy_string(settings->arena, text), .origin = origin};
    enum weir_status status = WEIR_OK;
    if (value.text == NULL) {
        return error_out_of_memory(error);
    }
    switch (setting->type) {
    case SETTING_TEXT:
        if (!text_is_utf8(text, strlen(text)) || strlen(text) > (size_t)text_bytes_max(setting)) {
            status = error_set(error, WEIR_INVALID_CONFIG, "%s: not UTF-8, or longer than %d bytes", setting->key,
                               text_bytes_max(setting));
        } else if (text[0] == '\0' && setting->default_text[0] != '\0') {
            status = error_set(error, WEIR_INVALID_CONFIG, "%s is empty", setting->key);
            error_hint(error, "leave it out for its default, %s", setting->default_text);
        }
        break;
    case SETTING_INTEGER:
        status = read_integer_setting(setting, text, &value.number, error);
        break;
    case SETTING_DURATION:
        status = read_duration_setting(setting, text, &value.number, error);
        break;
    case SETTING_BOOLEAN:
        status = read_boolean_setting(setting, text, &value.number, error);
        break;
    case SETTING_RATIO:
        status = read_ratio_setting(setting, text, &value.number, error);
        break;
    case SETTING_CHOICE:
        status = check_choice(settings, setting, text, error);
        break;
    case SETTING_ALLOW_LIST:
        status = read_allow_list(settings, &value, error);
        break;
    case SETTING_HOST_LIST:
        status = read_host_list(settings, &value, error);
        break;
    case SETTING_VARIABLE_LIST:
        status = read_variable_list(settings, setting, &value, error);
        break;
    }
    if (status == WEIR_OK) {
        settings->values[id] = value;
    }
    return status;
}

/* --- everything --- */

/* "~/.config/weir/weir.yaml"; NULL when there is no such place. */
static const char *user_file_path(struct arena *arena)
{
    char path[4096];
    const char *config_home = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int length = 0;
    if (config_home != NULL && config_home[0] == '/') {
        length = snprintf(path, sizeof path, "%s/weir/weir.yaml", config_home);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, sizeof path, "%s/.config/weir/weir.yaml", home);
    }
    return length > 0 && (size_t)length < sizeof path ? arena_copy_string(arena, path) : NULL;
}

/* Reads --config alone, or the three places from the weakest to the strongest. */
static enum weir_status read_files(struct settings *settings, const char *config_file, struct weir_error *error)
{
    const char *places[3] = {"./weir.yaml", user_file_path(settings->arena), "/etc/weir/weir.yaml"};
    size_t read_count = 0;
    bool found = false;
    if (config_file == NULL) {
        config_file = getenv("WEIR_CONFIG");
    }
    if (config_file != NULL && config_file[0] != '\0') {
        settings->files[0] = config_file;
        return settings_file_read(settings, config_file, false, &found, error);
    }
    bool is_there[3] = {false, false, false};
    for (size_t i = 3; i-- > 0;) {
        enum weir_status status =
            places[i] == NULL ? WEIR_OK : settings_file_read(settings, places[i], true, &is_there[i], error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < 3; i++) {
        if (is_there[i]) {
            settings->files[read_count++] = places[i];
        }
    }
    return WEIR_OK;
}

enum weir_status settings_load(struct settings *settings, struct arena *arena, const char *config_file,
                               struct weir_error *error)
{
    *settings = (struct settings){.arena = arena};
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        enum weir_status status = settings_set(settings, (enum setting_id)id, table[id].default_text, "default", error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    enum weir_status status = read_files(settings, config_file, error);
    for (unsigned id = 0; id < SETTING_COUNT && status == WEIR_OK; id++) {
        const char *text = getenv(table[id].environment);
        if (text != NULL && text[0] != '\0') {
            status = settings_set(settings, (enum setting_id)id, text, table[id].environment, error);
            if (status == WEIR_INVALID_CONFIG) {
                error_prefix(error, "%s", table[id].environment);
            }
        }
    }
    if (status == WEIR_OK) {
        status = temporal_profile_apply(settings, error);
    }
    if (status == WEIR_OK && settings->node_count > 1 && settings->values[SETTING_DISPATCH_EXCLUSIVE].number != 0) {
        status =
            error_set(error, WEIR_INVALID_CONFIG,
                      "dispatch.exclusive lets one node claim, so the other `nodes` of this process would claim nothing");
        error_hint(error, "run one node, or leave dispatch.exclusive out");
    }
    return status;
}

struct settings settings_of_node(const struct settings *settings, size_t index)
{
    struct settings own = *settings;
    INVARIANT(index < settings->node_count);
    own.nodes = NULL;
    own.node_count = 0;
    for (size_t id = 0; id < SETTING_COUNT; id++) {
        if (settings->nodes[index].values[id].text != NULL) {
            own.values[id] = settings->nodes[index].values[id];
        }
    }
    return own;
}

const struct settings_node *settings_entry_of(const struct settings *settings, const char *group)
{
    for (size_t i = 0; i < settings->node_count && group != NULL; i++) {
        if (strcmp(settings->nodes[i].values[SETTING_EXECUTOR_GROUP].text, group) == 0) {
            return &settings->nodes[i];
        }
    }
    return NULL;
}

struct settings settings_of_group(const struct settings *settings, const char *group)
{
    const struct settings_node *entry = settings_entry_of(settings, group);
    if (entry != NULL) {
        return settings_of_node(settings, (size_t)(entry - settings->nodes));
    }
    struct settings own = *settings;
    own.nodes = NULL;
    own.node_count = 0;
    return own;
}

const char *settings_text(const struct settings *settings, enum setting_id id)
{
    return settings->values[id].text;
}

const char *settings_text_or_null(const struct settings *settings, enum setting_id id)
{
    const char *text = settings->values[id].text;
    return text[0] == '\0' ? NULL : text;
}

int64_t settings_number(const struct settings *settings, enum setting_id id)
{
    return settings->values[id].number;
}

const char *const *settings_list(const struct settings *settings, enum setting_id id)
{
    return settings->values[id].list;
}
