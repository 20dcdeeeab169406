#include "cli/settings/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/settings/temporal_settings.h"
#include "support/test.h"

static char folder[] = "/tmp/weir-settings-XXXXXX";

struct fixture {
    struct arena arena;
    struct settings settings;
    struct weir_error error;
};

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static enum weir_status load(struct fixture *fixture, const char *config)
{
    memset(fixture, 0, sizeof *fixture);
    arena_init(&fixture->arena, 4 * 1024 * 1024);
    return settings_load(&fixture->settings, &fixture->arena, config, &fixture->error);
}

static void refuses(const char *content, const char *message, const char *hint)
{
    struct fixture fixture;
    write_file("weir.yaml", content);
    enum weir_status status = load(&fixture, NULL);
    if (status != WEIR_INVALID_CONFIG || strstr(fixture.error.message, message) == NULL ||
        strstr(fixture.error.hint, hint) == NULL) {
        print_error("%s -> %s / %s\n", content, fixture.error.message, fixture.error.hint);
    }
    assert_int_equal(status, WEIR_INVALID_CONFIG);
    assert_non_null(strstr(fixture.error.message, message));
    assert_non_null(strstr(fixture.error.hint, hint));
    arena_close(&fixture.arena);
    assert_int_equal(remove("weir.yaml"), 0);
}

static void defaults_are_valid_and_have_the_origin_default(void **state)
{
    struct fixture fixture;
    (void)state;
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    assert_string_equal(settings_text(&fixture.settings, SETTING_STORE), "sqlite:./weir.db");
    assert_int_equal(settings_number(&fixture.settings, SETTING_DISPATCH_POLL_INTERVAL), 5 * MICROSECONDS_PER_SECOND);
    assert_int_equal(settings_number(&fixture.settings, SETTING_DISPATCH_BATCH_SIZE), 0);
    assert_int_equal(settings_number(&fixture.settings, SETTING_CLAIM_TIMEOUT), 5 * 60 * MICROSECONDS_PER_SECOND);
    assert_int_equal(settings_number(&fixture.settings, SETTING_RECOVERY_INTERVAL), 60 * MICROSECONDS_PER_SECOND);
    assert_int_equal(settings_number(&fixture.settings, SETTING_STARTS_MAX), 3);
    assert_int_equal(settings_number(&fixture.settings, SETTING_EXEC_ALLOW), 0);
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        assert_string_equal(fixture.settings.values[id].origin, "default");
        assert_int_equal(settings_find(settings_table()[id].key), id);
    }
    arena_close(&fixture.arena);
}

static void the_nearest_source_wins(void **state)
{
    struct fixture fixture;
    (void)state;
    assert_int_equal(setenv("XDG_CONFIG_HOME", folder, 1), 0);
    assert_int_equal(mkdir("weir", 0700), 0);
    write_file("weir/weir.yaml", "starts.max: 7\nlog: {level: warn}\nnode.name: from-home\n");
    write_file("weir.yaml", "# mine\nstarts:\n  max: 8\nlog.level: error\n");
    assert_int_equal(setenv("WEIR_STARTS_MAX", "9", 1), 0);
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    assert_int_equal(settings_number(&fixture.settings, SETTING_STARTS_MAX), 9);
    assert_string_equal(fixture.settings.values[SETTING_STARTS_MAX].origin, "WEIR_STARTS_MAX");
    assert_string_equal(settings_text(&fixture.settings, SETTING_LOG_LEVEL), "error");
    assert_string_equal(fixture.settings.values[SETTING_LOG_LEVEL].origin, "./weir.yaml:4");
    assert_string_equal(settings_text(&fixture.settings, SETTING_NODE_NAME), "from-home");
    assert_string_equal(fixture.settings.files[0], "./weir.yaml");
    assert_int_equal(settings_set(&fixture.settings, SETTING_STARTS_MAX, "10", "--flag", &fixture.error), WEIR_OK);
    assert_int_equal(settings_number(&fixture.settings, SETTING_STARTS_MAX), 10);
    arena_close(&fixture.arena);
    assert_int_equal(unsetenv("WEIR_STARTS_MAX"), 0);
    assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
    assert_int_equal(remove("weir.yaml"), 0);
}

static void one_named_file_replaces_the_three(void **state)
{
    struct fixture fixture;
    (void)state;
    write_file("weir.yaml", "starts.max: 8\n");
    write_file("other.yaml", "log.level: debug\n");
    assert_int_equal(load(&fixture, "other.yaml"), WEIR_OK);
    assert_int_equal(settings_number(&fixture.settings, SETTING_STARTS_MAX), 3);
    assert_string_equal(settings_text(&fixture.settings, SETTING_LOG_LEVEL), "debug");
    arena_close(&fixture.arena);
    assert_int_equal(load(&fixture, "missing.yaml"), WEIR_INVALID_CONFIG);
    assert_non_null(strstr(fixture.error.message, "missing.yaml"));
    arena_close(&fixture.arena);
    assert_int_equal(load(&fixture, "."), WEIR_INVALID_CONFIG);
    arena_close(&fixture.arena);
    assert_int_equal(remove("weir.yaml"), 0);
}

static void a_wrong_file_is_refused_with_its_line(void **state)
{
    (void)state;
    refuses("store: ''\n", "store is empty", "sqlite:./weir.db");
    refuses("exec.allow: yes\n", "neither true nor false nor a list", "true allows all");
    refuses("exec.allow: [on]\n", "neither true nor false nor a list", "true allows all");
    refuses("starts.max: 3\ndispatch.batchsize: 3\n", "./weir.yaml:2:1: unknown key \"dispatch.batchsize\"",
            "did you mean \"dispatch.batch_size\"?");
    refuses("dispatch:\n  pol_interval: 3s\n", "./weir.yaml:2:3: unknown key", "dispatch.poll_interval");
    refuses("starts.max: many\n", "./weir.yaml:1:13: starts.max", "");
    refuses("starts.max: 0\n", "from 1 to 100", "");
    refuses("dispatch.poll_interval: 5\n", "dispatch.poll_interval", "");
    refuses("log.level: loud\n", "not one of: debug info warn error", "");
    refuses("log.level: debgu\n", "not one of", "did you mean debug?");
    refuses("dispatch.exclusive: yes\n", "neither true nor false", "");
    refuses("starts.max: 3\nstarts: {max: 4}\n", "set twice", "");
    refuses("- a\n", "a map of keys", "");
    refuses("store: [a]\n", "cannot be a list", "");
    refuses("exec.allow: [wc, bin/job]\n", "exec.allow: \"bin/job\" is a relative path", "write an absolute path");
    refuses("exec.allow: [./job]\n", "is a relative path", "write an absolute path");
    refuses("exec.allow: ['a b']\n", "not the name of a program", "");
    refuses("a: b: c\n", "./weir.yaml:1", "");
    refuses("zzzzzzzzzz: 1\n", "unknown key", "weir config show");
}

static void an_empty_file_is_valid(void **state)
{
    struct fixture fixture;
    (void)state;
    write_file("weir.yaml", "");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    arena_close(&fixture.arena);
    write_file("weir.yaml", "# nothing yet\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    arena_close(&fixture.arena);
    assert_int_equal(remove("weir.yaml"), 0);
}

static void the_starts_of_temporal_are_a_setting(void **state)
{
    struct fixture fixture;
    struct temporal_options options;
    (void)state;
    write_file("weir.yaml", "executor.max_running: 9\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    temporal_settings_read(&fixture.settings, &options);
    assert_int_equal(options.starts_max, 64);
    arena_close(&fixture.arena);
    write_file("weir.yaml", "executor.max_running: 9\ntemporal.starts_max: 7\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    temporal_settings_read(&fixture.settings, &options);
    assert_int_equal(options.starts_max, 7);
    assert_int_equal(options.max_running, 9);
    arena_close(&fixture.arena);
    assert_int_equal(remove("weir.yaml"), 0);
    refuses("temporal.starts_max: 0\n", "temporal.starts_max", "");
}

static void exec_allow_is_false_true_or_a_list(void **state)
{
    struct fixture fixture;
    (void)state;
    write_file("weir.yaml", "exec.allow: [sh, /usr/bin/wc]\nretention: forever\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    const char *const *list = settings_list(&fixture.settings, SETTING_EXEC_ALLOW);
    assert_int_equal(settings_number(&fixture.settings, SETTING_EXEC_ALLOW), 1);
    assert_string_equal(list[0], "sh");
    assert_string_equal(list[1], "/usr/bin/wc");
    assert_null(list[2]);
    assert_int_equal(settings_number(&fixture.settings, SETTING_RETENTION), -1);
    arena_close(&fixture.arena);
    write_file("weir.yaml", "exec.allow: true\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    assert_int_equal(settings_number(&fixture.settings, SETTING_EXEC_ALLOW), 1);
    assert_null(settings_list(&fixture.settings, SETTING_EXEC_ALLOW));
    arena_close(&fixture.arena);
    assert_int_equal(remove("weir.yaml"), 0);
}

static void http_step_allow_is_false_true_or_a_list(void **state)
{
    struct fixture fixture;
    (void)state;
    write_file("weir.yaml", "retention: forever\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    assert_int_equal(settings_number(&fixture.settings, SETTING_HTTP_STEP_ALLOW), 0);
    arena_close(&fixture.arena);
    write_file("weir.yaml", "http_step.allow: [api.example.com, \"*\", 10.1.0.0/16, \"::1\"]\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    const char *const *list = settings_list(&fixture.settings, SETTING_HTTP_STEP_ALLOW);
    assert_int_equal(settings_number(&fixture.settings, SETTING_HTTP_STEP_ALLOW), 1);
    assert_string_equal(list[1], "*");
    assert_string_equal(list[3], "::1");
    assert_null(list[4]);
    arena_close(&fixture.arena);
    write_file("weir.yaml", "http_step.allow: []\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    assert_int_equal(settings_number(&fixture.settings, SETTING_HTTP_STEP_ALLOW), 0);
    arena_close(&fixture.arena);
    refuses("http_step.allow: yes\n", "neither true nor false nor a list of hosts", "true allows all public addresses");
    refuses("http_step.allow: [http://a.test]\n",
            "weir.yaml:1:18: http_step.allow: \"http://a.test\" is neither a host name nor an address nor a network",
            "*.example.com");
    refuses("http_step.allow: [10.0.0.0/40]\n", "is neither a host name nor an address nor a network", "10.1.0.0/16");
    refuses("http_step.allow: ['a b']\n", "not the name of a host", "");
}

static void a_list_of_too_many_programs_is_refused(void **state)
{
    struct fixture fixture;
    char list[2 * (SETTINGS_LIST_MAX + 1)];
    (void)state;
    for (size_t i = 0; i < sizeof list; i++) {
        list[i] = i % 2 == 0 ? 'a' : ',';
    }
    list[sizeof list - 1] = '\0';
    assert_int_equal(setenv("WEIR_EXEC_ALLOW", list, 1), 0);
    assert_int_equal(load(&fixture, NULL), WEIR_INVALID_CONFIG);
    assert_non_null(strstr(fixture.error.message, "WEIR_EXEC_ALLOW: exec.allow: more than 256 programs"));
    arena_close(&fixture.arena);
    assert_int_equal(setenv("WEIR_EXEC_ALLOW", list + 2, 1), 0);
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    const char *const *words = settings_list(&fixture.settings, SETTING_EXEC_ALLOW);
    assert_string_equal(words[SETTINGS_LIST_MAX - 1], "a");
    assert_null(words[SETTINGS_LIST_MAX]);
    arena_close(&fixture.arena);
    assert_int_equal(unsetenv("WEIR_EXEC_ALLOW"), 0);
}

static void a_wrong_variable_is_named(void **state)
{
    struct fixture fixture;
    (void)state;
    assert_int_equal(setenv("WEIR_NODE_LEASE", "soon", 1), 0);
    assert_int_equal(load(&fixture, NULL), WEIR_INVALID_CONFIG);
    assert_non_null(strstr(fixture.error.message, "WEIR_NODE_LEASE"));
    arena_close(&fixture.arena);
    assert_int_equal(unsetenv("WEIR_NODE_LEASE"), 0);
}

/* --- nodes --- */

static void nodes_have_the_settings_beside_them_and_their_own(void **state)
{
    struct fixture fixture;
    (void)state;
    write_file("weir.yaml", "engine: temporal\nexec.allow: [wc]\ntemporal: {namespace: all, task_queue: q}\nnodes:\n"
                            "  - {executor.group: steps, engine: in_process}\n"
                            "  - executor: {group: billing, max_running: 7}\n    temporal.namespace: billing\n");
    assert_int_equal(setenv("WEIR_TEMPORAL_NAMESPACE", "everywhere", 1), 0);
    assert_int_equal(setenv("WEIR_TEMPORAL_TASK_QUEUE", "r", 1), 0);
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    assert_int_equal(fixture.settings.node_count, 2);
    struct settings steps = settings_of_node(&fixture.settings, 0);
    struct settings billing = settings_of_group(&fixture.settings, "billing");
    struct settings other = settings_of_group(&fixture.settings, "other");
    assert_int_equal(steps.node_count, 0);
    assert_string_equal(settings_text(&steps, SETTING_ENGINE), "in_process");
    assert_string_equal(settings_text(&steps, SETTING_TEMPORAL_NAMESPACE), "everywhere");
    assert_string_equal(settings_list(&steps, SETTING_EXEC_ALLOW)[0], "wc");
    assert_string_equal(settings_text(&billing, SETTING_ENGINE), "temporal");
    assert_string_equal(settings_text(&billing, SETTING_TEMPORAL_NAMESPACE), "billing"); /* nothing else names the node */
    assert_string_equal(billing.values[SETTING_TEMPORAL_NAMESPACE].origin, "./weir.yaml:7");
    assert_string_equal(settings_text(&billing, SETTING_TEMPORAL_TASK_QUEUE), "r");
    assert_int_equal(settings_number(&billing, SETTING_EXECUTOR_MAX_RUNNING), 7);
    assert_int_equal(settings_number(&steps, SETTING_EXECUTOR_MAX_RUNNING), 1000);
    assert_string_equal(settings_text(&other, SETTING_ENGINE), "temporal");
    assert_string_equal(settings_text(&other, SETTING_EXECUTOR_GROUP), "default");
    assert_int_equal(settings_of_group(&fixture.settings, NULL).node_count, 0);
    arena_close(&fixture.arena);
    assert_int_equal(unsetenv("WEIR_TEMPORAL_NAMESPACE"), 0);
    assert_int_equal(unsetenv("WEIR_TEMPORAL_TASK_QUEUE"), 0);
    assert_int_equal(remove("weir.yaml"), 0);
}

static void the_nearest_list_of_nodes_wins_as_a_whole(void **state)
{
    struct fixture fixture;
    (void)state;
    assert_int_equal(setenv("XDG_CONFIG_HOME", folder, 1), 0);
    assert_int_equal(mkdir("weir", 0700) == 0 || errno == EEXIST, 1);
    write_file("weir/weir.yaml", "nodes: [{executor.group: a, engine: temporal}, {executor.group: b}]\n");
    write_file("weir.yaml", "nodes: [{executor.group: c}]\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    assert_int_equal(fixture.settings.node_count, 1);
    struct settings only = settings_of_node(&fixture.settings, 0);
    assert_string_equal(settings_text(&only, SETTING_EXECUTOR_GROUP), "c");
    assert_string_equal(settings_text(&only, SETTING_ENGINE), "in_process");
    arena_close(&fixture.arena);
    assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
    assert_int_equal(remove("weir.yaml"), 0);
    assert_int_equal(remove("weir/weir.yaml"), 0);
}

static void wrong_nodes_are_refused_with_their_line(void **state)
{
    char many[1024] = "nodes:\n";
    (void)state;
    refuses("nodes: {executor.group: a}\n", "./weir.yaml:1:8: nodes must be a list of 1 to 16 maps", "");
    refuses("nodes: []\n", "nodes must be a list of 1 to 16 maps", "");
    refuses("nodes: [a]\n", "./weir.yaml:1:9: a node is a map of keys, not a text", "");
    refuses("nodes:\n  - engine: temporal\n", "./weir.yaml:2:5: a node needs its executor.group", "executor.group: NAME");
    refuses("nodes: [{executor.group: ''}]\n", "executor.group is empty", "");
    refuses("nodes: [{executor.group: g1234567890123456789012345678901234567890123456789012345678901234}]\n",
            "longer than 64 bytes", "");
    refuses("nodes:\n  - executor.group: a\n  - executor: {group: a}\n",
            "./weir.yaml:3:5: another node serves the group \"a\" already", "");
    refuses("nodes:\n  - {executor.group: a, store: x}\n", "./weir.yaml:2:32: store cannot be the setting of one node",
            "beside \"nodes\"");
    refuses("nodes: [{executor.group: a, log: {level: debug}}]\n", "log.level cannot be", "");
    refuses("nodes: [{executor.group: a, engin: temporal}]\n", "unknown key \"engin\"", "did you mean \"engine\"?");
    refuses("nodes: [{executor.group: a, engine: temporl}]\n", "./weir.yaml:1:37: engine", "did you mean temporal?");
    refuses("nodes: [{executor.group: a, nodes: []}]\n", "unknown key \"nodes\"", "");
    refuses("nods: []\n", "unknown key \"nods\"", "did you mean \"nodes\"?");
    refuses("dispatch.exclusive: true\nnodes: [{executor.group: a}, {executor.group: b}]\n",
            "dispatch.exclusive lets one node claim", "run one node");
    for (int i = 0; i < 17; i++) {
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "  - executor.group: g%d\n", i);
    }
    refuses(many, "nodes must be a list of 1 to 16 maps", "");
}

/* --- where Temporal's own tools find the service --- */

static void expect_setting(struct fixture *fixture, enum setting_id id, const char *text, const char *origin)
{
    assert_string_equal(settings_text(&fixture->settings, id), text);
    assert_non_null(strstr(fixture->settings.values[id].origin, origin));
}

#define PROFILES                                                                                                           \
    "# of another\n[profile.cloud]\naddress = \"far:7233\"\n\n[profile.default]\naddress = \"near:7233\" # here\n"         \
    "namespace = 'sales'\nunknown = [1, 2]\n[profile.default.tls]\nserver_name = \"a\\\"b\"\n[profile.other.tls]\n"        \
    "client_cert_data = \"x\"\n"

static void temporals_own_sources_count_when_weir_has_no_address(void **state)
{
    struct fixture fixture;
    (void)state;
    write_file("temporal.toml", PROFILES);
    write_file("weir.yaml", "engine: temporal\ntemporal.tls.server_name: own\n");
    assert_int_equal(setenv("TEMPORAL_CONFIG_FILE", "temporal.toml", 1), 0);
    assert_int_equal(setenv("TEMPORAL_NAMESPACE", "billing", 1), 0);
    assert_int_equal(setenv("TEMPORAL_API_KEY", "secret", 1), 0);
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    expect_setting(&fixture, SETTING_TEMPORAL_ADDRESS, "near:7233", "temporal.toml:6");
    expect_setting(&fixture, SETTING_TEMPORAL_NAMESPACE, "billing", "TEMPORAL_NAMESPACE");
    expect_setting(&fixture, SETTING_TEMPORAL_TLS_SERVER_NAME, "own", "weir.yaml:2");
    expect_setting(&fixture, SETTING_TEMPORAL_API_KEY_FILE, "env:TEMPORAL_API_KEY", "TEMPORAL_API_KEY");
    assert_int_equal(settings_number(&fixture.settings, SETTING_TEMPORAL_TLS_ENABLED), 1);
    arena_close(&fixture.arena);
    /* The address of one service, and nothing of another. */
    write_file("weir.yaml", "engine: temporal\ntemporal.address: own:7233\n");
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    expect_setting(&fixture, SETTING_TEMPORAL_ADDRESS, "own:7233", "weir.yaml:2");
    expect_setting(&fixture, SETTING_TEMPORAL_NAMESPACE, "default", "default");
    expect_setting(&fixture, SETTING_TEMPORAL_API_KEY_FILE, "", "default");
    assert_int_equal(settings_number(&fixture.settings, SETTING_TEMPORAL_TLS_ENABLED), 0);
    arena_close(&fixture.arena);
    /* Another profile, and one that is not there. */
    write_file("weir.yaml", "engine: temporal\n");
    assert_int_equal(setenv("TEMPORAL_PROFILE", "cloud", 1), 0);
    assert_int_equal(load(&fixture, NULL), WEIR_OK);
    expect_setting(&fixture, SETTING_TEMPORAL_ADDRESS, "far:7233", "temporal.toml:3");
    assert_int_equal(settings_number(&fixture.settings, SETTING_TEMPORAL_TLS_ENABLED), 0);
    arena_close(&fixture.arena);
    assert_int_equal(setenv("TEMPORAL_PROFILE", "none", 1), 0);
    refuses("engine: temporal\n", "has no profile \"none\"", "");
    assert_int_equal(setenv("TEMPORAL_PROFILE", "other", 1), 0);
    refuses("engine: temporal\n", "temporal.toml:12: weir does not support tls.client_cert_data there", "temporal.address");
    assert_int_equal(unsetenv("TEMPORAL_PROFILE"), 0);
    assert_int_equal(unsetenv("TEMPORAL_CONFIG_FILE"), 0);
    assert_int_equal(unsetenv("TEMPORAL_NAMESPACE"), 0);
    assert_int_equal(unsetenv("TEMPORAL_API_KEY"), 0);
    assert_int_equal(remove("temporal.toml"), 0);
}

static int enter_folder(void **state)
{
    (void)state;
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        (void)unsetenv(settings_table()[id].environment);
    }
    (void)unsetenv("WEIR_CONFIG");
    (void)unsetenv("XDG_CONFIG_HOME");
    return mkdtemp(folder) != NULL && setenv("HOME", "/nowhere", 1) == 0 ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    (void)remove("weir/weir.yaml");
    (void)remove("weir");
    (void)remove("other.yaml");
    return chdir("/") == 0 ? remove(folder) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_valid_and_have_the_origin_default),
        cmocka_unit_test(the_nearest_source_wins),
        cmocka_unit_test(one_named_file_replaces_the_three),
        cmocka_unit_test(a_wrong_file_is_refused_with_its_line),
        cmocka_unit_test(an_empty_file_is_valid),
        cmocka_unit_test(the_starts_of_temporal_are_a_setting),
        cmocka_unit_test(exec_allow_is_false_true_or_a_list),
        cmocka_unit_test(http_step_allow_is_false_true_or_a_list),
        cmocka_unit_test(a_list_of_too_many_programs_is_refused),
        cmocka_unit_test(a_wrong_variable_is_named),
        cmocka_unit_test(nodes_have_the_settings_beside_them_and_their_own),
        cmocka_unit_test(the_nearest_list_of_nodes_wins_as_a_whole),
        cmocka_unit_test(wrong_nodes_are_refused_with_their_line),
        cmocka_unit_test(temporals_own_sources_count_when_weir_has_no_address),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
