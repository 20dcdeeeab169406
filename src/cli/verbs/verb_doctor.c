/* `weir doctor` and `weir temporal doctor`: each check is one line with a sign.
 *
 * A check calls report_check() with fine, warning or problem, a name and a sentence that ends with the remedy. The checks
 * run in the order of their dependence: without a store nothing else can be checked. A problem gives exit code 1, a
 * warning does not.
 *
 * Every check only reads: a doctor must not change what it examines. One thread.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/shell_quote.h"
#include "base/text.h"
#include "cli/output/json_fields.h"
#include "cli/settings/temporal_settings.h"
#include "cli/verbs/disk.h"
#include "cli/verbs/doctor.h"
#include "cli/verbs/doctor_secrets.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/stuck_text.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/verb.h"

#define CLOCK_SKEW_WARN_US (5 * MICROSECONDS_PER_SECOND)
#define MEBIBYTE ((uint64_t)1024 * 1024)
enum {
    DISK_PROBLEM_MIB = 100,
    DISK_WARN_MIB = 1024,
    SQLITE_MODE_BYTE = 18, /* of the file's header: 2 = WAL (SQLite file format, 1.3) */
    SQLITE_MODE_WAL = 2
};

void report_check(struct doctor *doctor, enum sign sign, const char *check, const char *format, ...)
{
    char text[WEIR_ERROR_MESSAGE_MAX + WEIR_ERROR_HINT_MAX];
    struct output *output = doctor->invocation->output;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_make_safe(text);
    doctor->problems += sign == SIGN_BAD;
    doctor->warnings += sign == SIGN_WARN;
    if (output->format == OUTPUT_TABLE) {
        output_print(output, "%s %-9s %s\n", output_sign_coloured(output, sign), check, text);
        return;
    }
    const char *result = sign == SIGN_BAD ? "problem" : sign == SIGN_WARN ? "warning" : "ok";
    (void)json_array_append_new(doctor->items,
                                json_pack("{s:s, s:s, s:s}", "check", check, "outcome", result, "detail", text));
}

/* --- the checks --- */

static void report_secrets_warning(void *context, const char *text)
{
    report_check(context, SIGN_WARN, "secrets", "%s", text);
}

static enum weir_status check_store(struct doctor *doctor, struct weir_error *error)
{
    int64_t began_us = clock_boot(clock_system());
    enum weir_status status = verb_open_store(doctor->invocation, STORE_MEND, &doctor->store, error);
    if (status == WEIR_OK) {
        status = store_require_schema(doctor->store, error);
    }
    if (status == WEIR_OK) {
        status = store_time(doctor->store, &doctor->now_us, error);
    }
    if (status == WEIR_OK) {
        status = store_status(doctor->store, 1, &doctor->status, error);
    }
    if (status != WEIR_OK) {
        report_check(doctor, SIGN_BAD, "store", "%s", error->message);
        return status;
    }
    double ms = (double)(clock_boot(clock_system()) - began_us) / 1000.0;
    report_check(doctor, SIGN_FINE, "store", "%s, opened and read in %.1f ms", store_url(doctor->store), ms);
    report_check(doctor, SIGN_FINE, "schema", "v%" PRId64 ", the version that this program needs",
                 field_number(doctor->status, "schema", 0));
    return WEIR_OK;
}

/* The file of a sqlite: URL; NULL for other stores. */
static const char *file_of(const struct doctor *doctor)
{
    return disk_store_file(store_url(doctor->store));
}

/* The durability of a commit on the server: with these settings off, acknowledged work can be lost. */
static void check_server(struct doctor *doctor, const json_t *server)
{
    struct output *output = doctor->invocation->output;
    const char *version = field_text(output, server, "server_version");
    const char *commit = json_string_value(json_object_get(server, "synchronous_commit"));
    const char *standbys = json_string_value(json_object_get(server, "synchronous_standby_names"));
    if (!field_is_true(server, "fsync") || !field_is_true(server, "full_page_writes")) {
        report_check(doctor, SIGN_BAD, "mode",
                     "PostgreSQL %s with fsync or full_page_writes off: a crash of its machine may destroy the store",
                     version);
    } else if (commit != NULL && strcmp(commit, "off") == 0) {
        report_check(
            doctor, SIGN_BAD, "mode",
            "PostgreSQL %s with synchronous_commit off for this role: a crash of the server loses acknowledged work",
            version);
    } else {
        report_check(doctor, SIGN_FINE, "mode", "PostgreSQL %s; a commit waits for the disk%s", version,
                     standbys != NULL && standbys[0] != '\0'
                         ? " and for a standby"
                         : ", for no standby: a failover to a standby may lose the newest commits");
    }
}

/* Whether the connection to PostgreSQL is encrypted, or has to be. */
static void check_transport(struct doctor *doctor, const json_t *server)
{
    const char *mode = field_text(doctor->invocation->output, server, "optional_tls");
    bool has_tls = field_is_true(server, "tls");
    if (mode != NULL) {
        report_check(
            doctor, SIGN_WARN, "transport",
            "%s now, and sslmode=%s does not demand TLS of a server on another machine: add sslmode=verify-full and "
            "sslrootcert"
            " to the URL",
            has_tls ? "encrypted" : "not encrypted", mode);
    } else {
        report_check(doctor, SIGN_FINE, "transport", "%s",
                     has_tls ? "encrypted (TLS)"
                             : "not encrypted: the server is on this machine, or sslmode=disable is set");
    }
}

/* A file with a secret that other users of the machine may read. `path` may be NULL or "". */
static void check_secret_file(struct doctor *doctor, const char *what, const char *path)
{
    struct stat facts;
    char word[SHELL_WORD_MAX];
    if (path != NULL && path[0] != '\0' && stat(path, &facts) == 0 && S_ISREG(facts.st_mode) &&
        (facts.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) != 0) {
        report_check(doctor, SIGN_WARN, "secrets", "%s may be read or written by other users (mode %04o): chmod 600 %s",
                     what, (unsigned)(facts.st_mode & 07777), shell_quote(path, word));
    }
}

/* libpq itself refuses a private key that other users may read, and ignores such a password file. */
static void check_secrets(struct doctor *doctor)
{
    const struct settings *settings = doctor->invocation->settings;
    const char *url = settings_text(settings, SETTING_STORE);
    const char *host = strstr(url, "://");
    const char *at = host == NULL ? NULL : strchr(host, '@');
    const char *colon = host == NULL ? NULL : strchr(host + 3, ':');
    const char *passwords = getenv("PGPASSFILE");
    char home_file[PATH_MAX];
    bool is_in_url = (at != NULL && colon != NULL && colon < at) || strstr(url, "password=") != NULL;
    if (passwords == NULL && getenv("HOME") != NULL) {
        (void)snprintf(home_file, sizeof home_file, "%s/.pgpass", getenv("HOME"));
        passwords = home_file;
    }
    if (strncmp(url, "postgres", strlen("postgres")) == 0) {
        check_secret_file(doctor, "the password file of PostgreSQL", passwords);
    }
    for (size_t i = 0; is_in_url && i < sizeof settings->files / sizeof settings->files[0]; i++) {
        check_secret_file(doctor, "a settings file beside a store with a password in its URL", settings->files[i]);
    }
    check_secret_file(doctor, "http.token_file", settings_text(settings, SETTING_HTTP_TOKEN_FILE));
    for (size_t i = 0; i <= settings->node_count; i++) {
        struct settings own = i < settings->node_count ? settings_of_node(settings, i) : *settings;
        check_secret_file(doctor, "temporal.tls.key_file", settings_text(&own, SETTING_TEMPORAL_TLS_KEY_FILE));
        check_secret_file(doctor, "temporal.api_key_file", settings_text(&own, SETTING_TEMPORAL_API_KEY_FILE));
        check_secret_file(doctor, "temporal.codec_token_file", settings_text(&own, SETTING_TEMPORAL_CODEC_TOKEN_FILE));
    }
}

/* Any role can keep the queue from being emptied; notify_news() of the store stops at half of it. */
static void check_notifications(struct doctor *doctor, const json_t *server)
{
    enum { PERCENT_MOST = 50 };
    int64_t percent = field_number(server, "notifications_percent", 0);
    if (percent >= PERCENT_MOST) {
        report_check(doctor, SIGN_WARN, "notifications",
                     "the server's queue of notifications is %" PRId64
                     " %% full, so nodes poll and start work later: end the session that listens in a long transaction "
                     "(the oldest xact_start in pg_stat_activity)",
                     percent);
    }
}

/* The durability of commits: settings of the server, or the mode of the SQLite file. */
static void check_mode(struct doctor *doctor)
{
    unsigned char mode = 0;
    const json_t *server = json_object_get(doctor->status, "server");
    if (server != NULL) {
        check_server(doctor, server);
        check_transport(doctor, server);
        check_notifications(doctor, server);
        return;
    }
    const char *path = file_of(doctor);
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t got = pread(fd, &mode, 1, SQLITE_MODE_BYTE);
    (void)close(fd);
    if (got == 1 && mode == SQLITE_MODE_WAL) {
        report_check(doctor, SIGN_FINE, "mode", "SQLite write-ahead log; every connection commits with synchronous=FULL");
    } else {
        report_check(doctor, SIGN_BAD, "mode", "the file is not in write-ahead mode: another program has changed it");
    }
}

/* Compares this machine's clock with the time of the store. */
static void check_clock(struct doctor *doctor)
{
    char text[DURATION_TEXT_MAX];
    int64_t skew_us = clock_wall(clock_system()) - doctor->now_us;
    int64_t size_us = skew_us < 0 ? -skew_us : skew_us;
    duration_format_short(size_us, text);
    if (size_us > CLOCK_SKEW_WARN_US) {
        report_check(doctor, SIGN_WARN, "clock",
                     "this machine's clock is %s %s store time; this changes only the times that commands show", text,
                     skew_us < 0 ? "behind" : "ahead of");
    } else {
        report_check(doctor, SIGN_FINE, "clock", "within %s of store time", text);
    }
}

/* The free space where the SQLite file is. */
static void check_disk(struct doctor *doctor)
{
    uint64_t free_mib = 0;
    if (!disk_free_mib(store_url(doctor->store), &free_mib)) {
        return;
    }
    enum sign sign = free_mib < DISK_PROBLEM_MIB ? SIGN_BAD : free_mib < DISK_WARN_MIB ? SIGN_WARN : SIGN_FINE;
    report_check(doctor, sign, "disk", "%" PRIu64 " MiB free where the store is", free_mib);
}

/* Whether the archive is there and belongs to the store. A store that has moved nothing has no line. */
static void check_archive(struct doctor *doctor)
{
    const json_t *archive = json_object_get(doctor->status, "archive");
    const char *problem = json_string_value(json_object_get(archive, "problem"));
    const char *moved_at = json_string_value(json_object_get(archive, "moved_at"));
    if (problem != NULL) {
        report_check(doctor, SIGN_WARN, "archive", "%s; put a copy of it back, or keep the loss: new content is archived",
                     problem);
    } else if (moved_at != NULL) {
        report_check(doctor, SIGN_FINE, "archive", "%" PRId64 " executions moved, the last at %s; %" PRIu64 " MiB",
                     field_number(archive, "moved", 0), moved_at, (uint64_t)field_number(archive, "bytes", 0) / MEBIBYTE);
    }
}

/* How many executions are stuck, and the first of them by name. */
static void check_stuck(struct doctor *doctor)
{
    size_t i;
    json_t *row;
    int64_t stuck = field_number(doctor->status, "stuck", 0);
    report_check(doctor, stuck > 0 ? SIGN_WARN : SIGN_FINE, "stuck", "%" PRId64 " execution%s longer than stuck_after%s",
                 stuck, stuck == 1 ? " runs" : "s run", stuck > 0 ? ": `weir list --where stuck=yes`" : "");
    json_array_foreach(json_object_get(doctor->status, "stuck_executions"), i, row)
    {
        char text[STUCK_TEXT_MAX];
        stuck_text(doctor->invocation->output, row, doctor->now_us, text);
        report_check(doctor, SIGN_WARN, "stuck", "%s: `weir why %s`", text,
                     field_text(doctor->invocation->output, row, "id"));
    }
}

enum { LEFT_LOOKS_MOST = 20 };

/* Names a group without a live node that would take over one of the executions, and what to do. */
static void report_handed_over(struct doctor *doctor, const json_t *page)
{
    size_t count = page_size(page);
    char remedy[2 * SHELL_WORD_MAX + 160] = "";
    for (size_t i = 0; i < count && i < LEFT_LOOKS_MOST && remedy[0] == '\0'; i++) {
        json_t *why = NULL;
        char word[SHELL_WORD_MAX];
        const char *id = json_string_value(json_object_get(json_array_get(json_object_get(page, "items"), i), "id"));
        if (id != NULL && store_why(doctor->store, id, &why, NULL) == WEIR_OK && field_number(why, "nodes_live", -1) == 0) {
            const char *group = json_string_value(json_object_get(why, "executor_group"));
            const char *quoted = shell_quote(group != NULL ? group : "NAME", word);
            (void)snprintf(
                remedy, sizeof remedy,
                "; group %s has no live node, so %s keeps its slot: `weir serve --executor-group %s`, or `weir cancel %s`",
                quoted, id, quoted, id);
        }
        json_decref(why);
    }
    report_check(doctor, count > 0 ? SIGN_WARN : SIGN_FINE, "handover",
                 "%zu execution%s handed over and wait%s for another node%s", count, count == 1 ? " was" : "s were",
                 count == 1 ? "s" : "", remedy);
}

/* Executions that are stuck, handed over, or claimed for too long. */
static enum weir_status check_executions(struct doctor *doctor, struct weir_error *error)
{
    struct list_options handed = {
        .kind = LIST_EXECUTIONS,
        .filter = {.reason = "handed_over", .states = 1U << ITEM_CLAIMED | 1U << ITEM_DISPATCHED},
        .limit = LIST_LIMIT_MOST,
    };
    struct list_options claimed = {
        .kind = LIST_EXECUTIONS, .filter = {.states = 1U << ITEM_CLAIMED}, .limit = LIST_LIMIT_MOST};
    int64_t timeout_us = settings_number(doctor->invocation->settings, SETTING_CLAIM_TIMEOUT);
    int64_t stale = 0;
    json_t *page = NULL;
    size_t i;
    json_t *item;
    enum weir_status status = doctor_check_targets(doctor, error);
    status =
        status == WEIR_OK ? doctor_secrets_check_waiting(doctor->store, report_secrets_warning, doctor, error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    check_stuck(doctor);
    status = store_list(doctor->store, &handed, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    report_handed_over(doctor, page);
    json_decref(page);
    page = NULL;
    status = store_list(doctor->store, &claimed, &page, error);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        int64_t claimed_us = doctor->now_us;
        const char *text = json_string_value(json_object_get(item, "claimed_at"));
        if (text != NULL && time_parse(text, doctor->now_us, &claimed_us, NULL) == WEIR_OK) {
            stale += doctor->now_us - claimed_us > timeout_us;
        }
    }
    json_decref(page);
    if (status == WEIR_OK) {
        report_check(doctor, stale > 0 ? SIGN_BAD : SIGN_FINE, "claims", "%" PRId64 " older than claim.timeout", stale);
    }
    return status;
}

/* The checks of `weir store check`. */
static enum weir_status check_books(struct doctor *doctor, struct weir_error *error)
{
    json_t *problems = NULL;
    size_t i;
    json_t *problem;
    enum weir_status status = store_check(doctor->store, &problems, error);
    if (status != WEIR_OK) {
        return status;
    }
    json_array_foreach(problems, i, problem)
    {
        report_check(doctor, SIGN_BAD, "books", "%s", json_string_value(problem));
    }
    if (json_array_size(problems) == 0) {
        report_check(doctor, SIGN_FINE, "books", "the store is whole, counters equal rows");
    }
    json_decref(problems);
    return WEIR_OK;
}

/* --- the engine's service --- */

struct service_check {
    struct doctor *doctor;
    const char *group; /* NULL when the process is one node: then a group in the line would add nothing */
};

/* Turns a finding of the engine into a line, with the group of its node. */
static void report_finding(void *context, enum finding finding, const char *check, const char *text)
{
    static const enum sign signs[] = {
        [FINDING_FINE] = SIGN_FINE, [FINDING_WARNING] = SIGN_WARN, [FINDING_PROBLEM] = SIGN_BAD};
    const struct service_check *service_check = context;
    const char *group = service_check->group;
    report_check(service_check->doctor, signs[finding], check, "%s%s%s%s", group != NULL ? "group " : "",
                 group != NULL ? group : "", group != NULL ? ": " : "", text);
}

enum { QUEUES_MAX = 100 };

/* The definitions of the newest versions of workflows become JSON, so that names in them live as long as the page. */
static void read_definitions(const json_t *workflows)
{
    size_t i;
    json_t *workflow;
    json_array_foreach(workflows, i, workflow)
    {
        const char *text = json_string_value(json_object_get(workflow, "definition"));
        (void)json_object_set_new(workflow, "definition", text == NULL ? json_null() : json_load_text(text, 0));
    }
}

/* Lists the task queues of the workflows whose executions come to the group; the node's own for a workflow that names
 * none. */
static size_t name_queues(const struct settings *settings, const char *default_group, const json_t *workflows,
                          const char **queues)
{
    const char *own = settings_text(settings, SETTING_TEMPORAL_TASK_QUEUE);
    size_t count = 0;
    size_t i;
    json_t *workflow;
    json_array_foreach(workflows, i, workflow)
    {
        const json_t *definition = json_object_get(workflow, "definition");
        const json_t *temporal = json_object_get(definition, "temporal");
        const char *queue = json_string_value(json_object_get(temporal, "task_queue"));
        const char *group = json_string_value(json_object_get(definition, "executor_group"));
        group = group != NULL ? group : default_group;
        if (queue != NULL && strstr(queue, "${") != NULL) {
            continue; /* the params of each execution give it */
        }
        if (temporal != NULL && strcmp(group, settings_text(settings, SETTING_EXECUTOR_GROUP)) == 0 &&
            (queue != NULL || own[0] != '\0') && count < QUEUES_MAX) {
            queues[count++] = queue != NULL ? queue : own;
        }
    }
    if (count == 0 && own[0] != '\0') {
        queues[count++] = own;
    }
    return count;
}

/* Checks the service of one node of the settings. */
static enum weir_status check_service_of(struct doctor *doctor, const struct settings *settings, bool is_one,
                                         const json_t *workflows, struct weir_error *error)
{
    struct temporal_options temporal;
    struct engine_options options = {.temporal = &temporal};
    struct service_check service_check = {.doctor = doctor,
                                          .group = is_one ? NULL : settings_text(settings, SETTING_EXECUTOR_GROUP)};
    const char *queues[QUEUES_MAX + 1];
    temporal_settings_read(settings, &temporal);
    size_t count =
        name_queues(settings, settings_text(doctor->invocation->settings, SETTING_EXECUTOR_GROUP), workflows, queues);
    enum weir_status status =
        doctor_secrets_check_node(settings, settings_text(doctor->invocation->settings, SETTING_EXECUTOR_GROUP), workflows,
                                  report_secrets_warning, doctor, error);
    return status == WEIR_OK ? assemble_examine(settings_text(settings, SETTING_ENGINE), &options,
                                                temporal_service_timeout(doctor->invocation), queues, count, report_finding,
                                                &service_check, error)
                             : status;
}

/* Checks the service of each node of the settings. */
static enum weir_status check_services(struct doctor *doctor, struct weir_error *error)
{
    const struct settings *settings = doctor->invocation->settings;
    json_t *page = NULL;
    enum weir_status status = page_read(doctor->store, LIST_WORKFLOWS, NULL, &page, error);
    const json_t *workflows = json_object_get(page, "items");
    read_definitions(workflows);
    if (status == WEIR_OK && settings->node_count == 0) {
        status = check_service_of(doctor, settings, true, workflows, error);
    }
    for (size_t i = 0; i < settings->node_count && status == WEIR_OK; i++) {
        struct settings own = settings_of_node(settings, i);
        status = check_service_of(doctor, &own, false, workflows, error);
    }
    json_decref(page);
    return status;
}

/* One line for each paused executor group. */
static void check_paused_groups(struct doctor *doctor)
{
    size_t i;
    json_t *group;
    json_array_foreach(json_object_get(doctor->status, "executor_groups"), i, group)
    {
        const char *name = field_text(doctor->invocation->output, group, "name");
        char word[SHELL_WORD_MAX];
        if (field_is_true(group, "paused")) {
            report_check(doctor, SIGN_WARN, "group",
                         "%s is paused: no new execution starts in it until `weir resume --executor-group %s`", name,
                         shell_quote(name, word));
        }
    }
}

/* One line for each hook of a deleted workspace, and for each one with waiting events because it cannot enqueue. */
static enum weir_status check_hooks(struct doctor *doctor, struct weir_error *error)
{
    struct output *output = doctor->invocation->output;
    json_t *page = NULL;
    size_t i;
    json_t *hook;
    enum weir_status status = page_read(doctor->store, LIST_HOOKS, NULL, &page, error);
    json_array_foreach(json_object_get(page, "items"), i, hook)
    {
        const char *failure = field_text(output, hook, "error");
        if (field_is_true(hook, "workspace_deleted")) {
            report_check(doctor, SIGN_WARN, "hook", "%s names a workspace that was deleted; set it again, or delete it",
                         field_text(output, hook, "name"));
        } else if (failure != NULL) {
            report_check(doctor, SIGN_WARN, "hook", "%s cannot start its workflow, %s wait: %s; `weir hook list`",
                         field_text(output, hook, "name"), field_text(output, hook, "waiting"), failure);
        }
    }
    json_decref(page);
    return status;
}

/* One line for each schedule with a refused last time, or with a next one that has passed. */
static enum weir_status check_schedules(struct doctor *doctor, struct weir_error *error)
{
    struct output *output = doctor->invocation->output;
    json_t *page = NULL;
    int64_t now_us = 0;
    size_t i;
    json_t *schedule;
    enum weir_status status = store_time(doctor->store, &now_us, error);
    if (status == WEIR_OK) {
        status = page_read(doctor->store, LIST_SCHEDULES, NULL, &page, error);
    }
    json_array_foreach(json_object_get(page, "items"), i, schedule)
    {
        const char *name = field_text(output, schedule, "name");
        int64_t next_us = field_time(schedule, "next_at", now_us);
        if (field_is_true(schedule, "is_refused")) {
            report_check(doctor, SIGN_WARN, "schedule", "%s could not start its workflow: %s; `weir schedule show %s`",
                         name, field_text(output, schedule, "error"), name);
        } else if (next_us != 0 && next_us < now_us - SCHEDULE_LATE_US) {
            report_check(doctor, SIGN_WARN, "schedule", "%s is late, its time was %s: does a node run? `weir node list`",
                         name, output_ago(output, field_text(output, schedule, "next_at"), now_us));
        }
    }
    json_decref(page);
    return status;
}

/* All checks, in the order of their dependence. */
static enum weir_status run_all_checks(struct doctor *doctor, struct weir_error *error)
{
    enum weir_status status = check_store(doctor, error);
    if (status != WEIR_OK) {
        return status;
    }
    check_mode(doctor);
    check_secrets(doctor);
    check_clock(doctor);
    check_disk(doctor);
    check_archive(doctor);
    if (field_is_true(doctor->status, "queue_paused")) {
        report_check(doctor, SIGN_WARN, "queue", "paused: no new execution starts until `weir resume`");
    } else {
        report_check(doctor, SIGN_FINE, "queue", "open");
    }
    check_paused_groups(doctor);
    status = check_services(doctor, error);
    if (status == WEIR_OK) {
        status = doctor_check_nodes(doctor, error);
    }
    if (status == WEIR_OK) {
        status = check_executions(doctor, error);
    }
    if (status == WEIR_OK) {
        status = check_hooks(doctor, error);
    }
    if (status == WEIR_OK) {
        status = check_schedules(doctor, error);
    }
    return status == WEIR_OK ? check_books(doctor, error) : status;
}

/* Runs the checks, prints the JSON, and turns problems into the exit status. */
static enum weir_status run_doctor_checks(struct invocation *invocation,
                                          enum weir_status (*check)(struct doctor *doctor, struct weir_error *error),
                                          struct weir_error *error)
{
    struct doctor doctor = {.invocation = invocation, .items = json_array()};
    struct output *output = invocation->output;
    enum weir_status status = check(&doctor, error);
    if (output->format != OUTPUT_TABLE) {
        json_t *page = json_pack("{s:O, s:n, s:i, s:b, s:i, s:i}", "items", doctor.items, "next_cursor", "count",
                                 (int)json_array_size(doctor.items), "count_is_exact", 1, "problem_count", doctor.problems,
                                 "warning_count", doctor.warnings);
        (void)(page != NULL && output_page(output, page));
        json_decref(page);
    }
    if (status == WEIR_OK && doctor.problems > 0) {
        status =
            error_set(error, WEIR_FAILED, "%d %s, %d %s", doctor.problems, doctor.problems == 1 ? "problem" : "problems",
                      doctor.warnings, doctor.warnings == 1 ? "warning" : "warnings");
    }
    json_decref(doctor.items);
    json_decref(doctor.status);
    store_close(doctor.store);
    return status;
}

enum weir_status verb_doctor(struct invocation *invocation, struct weir_error *error)
{
    return run_doctor_checks(invocation, run_all_checks, error);
}

/* The workflows are in the store: they name task queues. */
static enum weir_status check_temporal(struct doctor *doctor, struct weir_error *error)
{
    const struct settings *settings = doctor->invocation->settings;
    bool has_temporal = settings->node_count == 0 && strcmp(settings_text(settings, SETTING_ENGINE), "temporal") == 0;
    for (size_t i = 0; i < settings->node_count; i++) {
        struct settings own = settings_of_node(settings, i);
        has_temporal = has_temporal || strcmp(settings_text(&own, SETTING_ENGINE), "temporal") == 0;
    }
    if (!has_temporal) {
        return assemble_require_operator("in_process", "service", error); /* no node runs executions there */
    }
    enum weir_status status = verb_open_store(doctor->invocation, STORE_READ, &doctor->store, error);
    return status == WEIR_OK ? check_services(doctor, error) : status;
}

enum weir_status verb_temporal_doctor(struct invocation *invocation, struct weir_error *error)
{
    return run_doctor_checks(invocation, check_temporal, error);
}
