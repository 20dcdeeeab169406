/* TLS: trusted servers, the messages of failures, and secrets that change while calls run. */
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/certificates.h"
#include "support/folder.h"
#include "support/grpc_fixture.h"
#include "support/test.h"

enum { DAY_S = 86400, SECOND = 1000000, PATH_BYTES = 600 };

static struct folder folder;
static const char *const names[] = {"ca",        "other_ca", "server", "expired",  "future",
                                    "elsewhere", "foreign",  "client", "intruder", "locked"};
enum { CA, OTHER_CA, SERVER, EXPIRED, FUTURE, ELSEWHERE, FOREIGN, CLIENT, INTRUDER, LOCKED, NAMES };
static char certificates[NAMES][PATH_BYTES];
static char keys[NAMES][PATH_BYTES];

static void make(int which, const char *signer, const char *alternative, int from_s, int until_s)
{
    struct certificate_request request = {.folder = folder.path,
                                          .name = names[which],
                                          .signer = signer,
                                          .alternative = alternative,
                                          .valid_from_s = from_s,
                                          .valid_until_s = until_s,
                                          .passphrase = which == LOCKED ? "canary-passphrase" : NULL};
    assert_int_equal(certificate_make(&request), 0);
    (void)snprintf(certificates[which], PATH_BYTES, "%s/%s.pem", folder.path, names[which]);
    (void)snprintf(keys[which], PATH_BYTES, "%s/%s.key", folder.path, names[which]);
}

/* Weaker defaults than those of any system, before OpenSSL reads them: an old version must be refused by weir itself. */
static void weaken_defaults(void)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/openssl.cnf", folder.path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs("openssl_conf = init\n[init]\nssl_conf = ssl\n[ssl]\nsystem_default = weak\n"
                "[weak]\nMinProtocol = TLSv1\nCipherString = DEFAULT@SECLEVEL=0\n",
                file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("OPENSSL_CONF", path, 1), 0);
}

static int make_all(void **state)
{
    static const char here[] = "DNS:localhost,DNS:temporal.test,IP:127.0.0.1";
    (void)state;
    assert_int_equal(folder_make(&folder), 0);
    weaken_defaults();
    make(CA, NULL, NULL, -DAY_S, DAY_S);
    make(OTHER_CA, NULL, NULL, -DAY_S, DAY_S);
    make(SERVER, "ca", here, -DAY_S, DAY_S);
    make(EXPIRED, "ca", here, -2 * DAY_S, -DAY_S);
    make(FUTURE, "ca", here, DAY_S, 2 * DAY_S);
    make(ELSEWHERE, "ca", "DNS:elsewhere.test", -DAY_S, DAY_S);
    make(FOREIGN, "other_ca", here, -DAY_S, DAY_S);
    make(CLIENT, "ca", NULL, -DAY_S, DAY_S);
    make(INTRUDER, "other_ca", NULL, -DAY_S, DAY_S);
    make(LOCKED, "ca", NULL, -DAY_S, DAY_S);
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

static void a_trusted_server_is_spoken_to(void **state)
{
    (void)state;
    enum { LARGE = 1000000 };
    struct grpc_fixture fixture;
    struct frontend_options served = {.certificate_file = certificates[SERVER], .key_file = keys[SERVER]};
    struct grpc_client_options options = {.ca_file = certificates[CA]};
    char *large = calloc(1, LARGE);
    assert_non_null(large);
    memset(large, 'x', LARGE);
    grpc_fixture_open(&fixture, &served, &options);
    fixture.script = (struct frontend_answer){.response = large, .response_length = LARGE};
    for (int i = 0; i < 5; i++) {
        (void)grpc_fixture_call(&fixture, large, LARGE);
    }
    grpc_fixture_wait_all(&fixture);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fixture.ended[i].outcome, GRPC_STATUS);
        assert_int_equal(fixture.ended[i].response_length, LARGE);
        assert_memory_equal(fixture.ended[i].response, large, LARGE);
    }
    fixture.script.response_length = 1000;
    fixture.script.drip = true; /* one byte of TLS at a time */
    assert_int_equal(grpc_fixture_run(&fixture)->response_length, 1000);
    free(large);
    grpc_fixture_close(&fixture);
}

static void expect_failure(const struct frontend_options *served, const struct grpc_client_options *options,
                           enum grpc_cause cause, const char *message, const char *hint)
{
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, served, options);
    struct grpc_ended *ended = grpc_fixture_run(&fixture);
    if (ended->outcome != GRPC_NOT_SENT || ended->cause != cause || strstr(ended->error.message, message) == NULL ||
        strstr(ended->error.hint, hint) == NULL) {
        fail_msg("%s %s: %s (%s)", grpc_fixture_outcome(ended->outcome), grpc_cause_name(ended->cause),
                 ended->error.message, ended->error.hint);
    }
    assert_int_equal(fixture.calls_handled, 0);
    grpc_fixture_close(&fixture);
}

static void each_failure_has_a_hint_and_sends_no_call(void **state)
{
    (void)state;
    const struct {
        struct frontend_options served;
        struct grpc_client_options options;
        enum grpc_cause cause;
        const char *message;
        const char *hint;
    } rows[] = {
        {{.certificate_file = certificates[FOREIGN], .key_file = keys[FOREIGN]},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_TLS,
         "not accepted",
         "ca_file"},
        {{.certificate_file = certificates[SERVER], .key_file = keys[SERVER]},
         {.tls = true}, /* the system's authorities */
         GRPC_CAUSE_TLS,
         "not accepted",
         "ca_file"},
        {{.certificate_file = certificates[EXPIRED], .key_file = keys[EXPIRED]},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_TLS,
         "expired",
         "renew"},
        {{.certificate_file = certificates[FUTURE], .key_file = keys[FUTURE]},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_TLS,
         "not yet valid",
         "clock"},
        {{.certificate_file = certificates[ELSEWHERE], .key_file = keys[ELSEWHERE]},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_TLS,
         "IP address mismatch",
         "server_name"},
        {{.certificate_file = certificates[SERVER], .key_file = keys[SERVER]},
         {.ca_file = certificates[CA], .server_name = "wrong.test"},
         GRPC_CAUSE_TLS,
         "ostname mismatch",
         "wrong.test"},
        {{.certificate_file = certificates[SERVER], .key_file = keys[SERVER], .client_ca_file = certificates[CA]},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_TLS,
         "certificate required",
         "certificate_file"},
        {{.certificate_file = certificates[SERVER], .key_file = keys[SERVER], .client_ca_file = certificates[CA]},
         {.ca_file = certificates[CA], .certificate_file = certificates[INTRUDER], .key_file = keys[INTRUDER]},
         GRPC_CAUSE_TLS,
         "unknown ca",
         "certificate_file"},
        {{.kind = FRONTEND_HTTP2}, {.ca_file = certificates[CA]}, GRPC_CAUSE_TLS, "TLS failed", "without TLS"},
        {{.kind = FRONTEND_HTTP1}, {.ca_file = certificates[CA]}, GRPC_CAUSE_TLS, "TLS failed", "without TLS"},
        {{.kind = FRONTEND_CLOSES}, {.ca_file = certificates[CA]}, GRPC_CAUSE_TLS, "closed the connection", "TLS"},
        {{.certificate_file = certificates[SERVER], .key_file = keys[SERVER], .alpn = "http/1.1"},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_NOT_HTTP2,
         "alert no application protocol",
         "h2"},
        {{.certificate_file = certificates[SERVER], .key_file = keys[SERVER], .alpn = ""},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_NOT_HTTP2,
         "did not choose HTTP/2",
         "gRPC port"},
        {{.certificate_file = certificates[SERVER], .key_file = keys[SERVER]},
         {.targets = NULL}, /* without TLS: this server hangs up, another kind sends an alert (faults_test.c) */
         GRPC_CAUSE_CONNECT,
         "without an answer",
         "may require TLS"},
        {{.kind = FRONTEND_HTTP1, .certificate_file = certificates[SERVER], .key_file = keys[SERVER]},
         {.ca_file = certificates[CA]},
         GRPC_CAUSE_NOT_HTTP2,
         "HTTP/1",
         "gRPC port"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_failure(&rows[i].served, &rows[i].options, rows[i].cause, rows[i].message, rows[i].hint);
    }
}

static void versions_before_tls_1_2_are_refused(void **state)
{
    (void)state;
    struct grpc_client_options options = {.ca_file = certificates[CA]};
    struct frontend_options served = {.certificate_file = certificates[SERVER], .key_file = keys[SERVER]};
    const int versions[] = {TLS1_VERSION, TLS1_1_VERSION};
    for (size_t i = 0; i < 2; i++) {
        served.tls_version_most = versions[i];
        expect_failure(&served, &options, GRPC_CAUSE_TLS, "protocol version", "TLS 1.2");
    }
    /* The defaults of this program allow them, so the refusal was that of weir. */
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    assert_non_null(context);
    assert_int_equal(SSL_CTX_get_min_proto_version(context), TLS1_VERSION);
    assert_int_equal(SSL_CTX_get_security_level(context), 0);
    SSL_CTX_free(context);
}

static void a_name_may_be_given_instead_of_the_hosts(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {.certificate_file = certificates[ELSEWHERE], .key_file = keys[ELSEWHERE]};
    struct grpc_client_options options = {.ca_file = certificates[CA], .server_name = "elsewhere.test"};
    grpc_fixture_open(&fixture, &served, &options);
    assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
    grpc_fixture_close(&fixture);
}

static void a_client_certificate_is_shown_to_a_server_that_wants_one(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {
        .certificate_file = certificates[SERVER], .key_file = keys[SERVER], .client_ca_file = certificates[CA]};
    struct grpc_client_options options = {
        .ca_file = certificates[CA], .certificate_file = certificates[CLIENT], .key_file = keys[CLIENT]};
    grpc_fixture_open(&fixture, &served, &options);
    assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
    grpc_fixture_close(&fixture);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void replace_file(const char *path, const char *by)
{
    char temporary[PATH_BYTES + 8];
    char buffer[8192];
    (void)snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *from = fopen(by, "r");
    assert_non_null(from);
    size_t length = fread(buffer, 1, sizeof buffer - 1, from);
    buffer[length] = '\0';
    assert_int_equal(fclose(from), 0);
    write_file(temporary, buffer);
    assert_int_equal(rename(temporary, path), 0);
}

static void files_that_cannot_be_used_are_refused_with_their_name(void **state)
{
    (void)state;
    char empty[PATH_BYTES];
    char fifo[PATH_BYTES];
    (void)snprintf(empty, sizeof empty, "%s/empty", folder.path);
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", folder.path);
    write_file(empty, "");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const struct {
        struct grpc_client_options options;
        const char *message;
        const char *hint;
    } rows[] = {
        {{.ca_file = "/nonexistent"}, "cannot read ca_file \"/nonexistent\"", "may read it"},
        {{.ca_file = empty}, "holds no certificate", ""},
        {{.ca_file = keys[CA]}, "holds no certificate", ""},
        {{.ca_file = fifo}, "no regular file", ""},
        {{.ca_file = folder.path}, "no regular file", ""},
        {{.certificate_file = empty, .key_file = keys[CLIENT]}, "holds no usable certificate", ""},
        {{.certificate_file = certificates[CLIENT], .key_file = empty}, "holds no private key", ""},
        {{.certificate_file = certificates[CLIENT], .key_file = keys[SERVER]}, "not the key of the certificate", "pair"},
        {{.certificate_file = certificates[LOCKED], .key_file = keys[LOCKED]}, "is encrypted", "without a passphrase"},
        {{.certificate_file = certificates[CLIENT]}, "key_file is missing", ""},
        {{.tls = true, .api_key_file = empty}, "one line", ""},
        {{.api_key_file = empty}, "in the clear", "TLS"},
        {{.tls = true, .api_key_file = "env:WEIR_TEST_NO_KEY"}, "names a variable that is not set", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct grpc_client_options options = rows[i].options;
        struct weir_error error = {.status = WEIR_OK};
        struct grpc_client *client = NULL;
        options.targets = "127.0.0.1:1";
        assert_int_equal(grpc_client_open(&options, clock_system(), &client, &error), WEIR_INVALID_CONFIG);
        if (strstr(error.message, rows[i].message) == NULL || strstr(error.hint, rows[i].hint) == NULL) {
            fail_msg("%zu: %s (%s)", i, error.message, error.hint);
        }
    }
    (void)unlink(fifo);
}

/* Holds the calls of "h", and notes the key that each call came with. */
struct key_watch {
    uint64_t held;
    char last_key[64];
    int last_connection;
};

static void watch_key(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    struct key_watch *watch = context;
    const char *key = frontend_header(call, "authorization");
    (void)snprintf(watch->last_key, sizeof watch->last_key, "%s", key != NULL ? key : "");
    watch->last_connection = call->connection;
    if (call->message_length == 1 && call->message[0] == 'h') {
        watch->held = call->token;
        answer->fate = FATE_HOLD;
    }
}

static bool secrets_loaded(struct grpc_fixture *fixture)
{
    return fixture->events[GRPC_EVENT_SECRETS_LOADED] >= 1 && fixture->events[GRPC_EVENT_CONNECTED] >= 2;
}

static void changed_secrets_are_used_without_dropping_a_call(void **state)
{
    (void)state;
    char key_file[PATH_BYTES];
    struct key_watch watch = {.held = 0};
    struct grpc_fixture fixture;
    struct frontend_options served = {
        .certificate_file = certificates[SERVER], .key_file = keys[SERVER], .handler = watch_key, .context = &watch};
    struct grpc_client_options options = {.ca_file = certificates[CA], .api_key_file = key_file};
    struct frontend_answer fine = {.fate = FATE_ANSWER};
    (void)snprintf(key_file, sizeof key_file, "%s/api_key", folder.path);
    write_file(key_file, "canary-one\n");
    grpc_fixture_open(&fixture, &served, &options);
    (void)grpc_fixture_run(&fixture);
    assert_string_equal(watch.last_key, "Bearer canary-one");
    struct grpc_ended *held = grpc_fixture_request(
        &fixture, (struct grpc_request){.message = "h", .message_length = 1, .timeout_us = 1000 * (int64_t)SECOND});
    while (watch.held == 0) {
        grpc_fixture_turn(&fixture);
    }

    write_file(key_file, ""); /* half written: refused, the old key stays */
    fixture.now_us += GRPC_SECRETS_INTERVAL_US;
    (void)grpc_fixture_run(&fixture);
    assert_int_equal(fixture.events[GRPC_EVENT_SECRETS_REFUSED], 1);
    assert_string_equal(watch.last_key, "Bearer canary-one");
    assert_null(strstr(fixture.last_event_error.message, "canary"));

    write_file(key_file, "canary-two");
    fixture.now_us += GRPC_SECRETS_INTERVAL_US;
    grpc_fixture_until(&fixture, secrets_loaded);
    (void)grpc_fixture_run(&fixture);
    assert_string_equal(watch.last_key, "Bearer canary-two");
    assert_int_equal(watch.last_connection, 2);
    assert_int_equal(held->times, 0);
    assert_true(frontend_answer(fixture.frontend, watch.held, &fine));
    grpc_fixture_wait(&fixture, held);
    assert_int_equal(held->outcome, GRPC_STATUS);
    grpc_fixture_close(&fixture);
}

static void an_api_key_may_be_in_a_variable(void **state)
{
    (void)state;
    struct key_watch watch = {.held = 0};
    struct grpc_fixture fixture;
    struct frontend_options served = {
        .certificate_file = certificates[SERVER], .key_file = keys[SERVER], .handler = watch_key, .context = &watch};
    struct grpc_client_options options = {.ca_file = certificates[CA], .api_key_file = "env:WEIR_TEST_KEY"};
    assert_int_equal(setenv("WEIR_TEST_KEY", "canary-three", 1), 0);
    grpc_fixture_open(&fixture, &served, &options);
    (void)grpc_fixture_run(&fixture);
    assert_string_equal(watch.last_key, "Bearer canary-three");
    fixture.now_us += GRPC_SECRETS_INTERVAL_US;
    (void)grpc_fixture_run(&fixture);
    assert_int_equal(fixture.events[GRPC_EVENT_SECRETS_REFUSED] + fixture.events[GRPC_EVENT_SECRETS_LOADED], 0);
    grpc_fixture_close(&fixture);
    assert_int_equal(unsetenv("WEIR_TEST_KEY"), 0);
}

static void a_rotated_authority_is_used_by_the_next_connection(void **state)
{
    (void)state;
    char ca_file[PATH_BYTES];
    struct grpc_fixture fixture;
    struct frontend_options served = {.certificate_file = certificates[FOREIGN], .key_file = keys[FOREIGN]};
    struct grpc_client_options options = {.ca_file = ca_file};
    (void)snprintf(ca_file, sizeof ca_file, "%s/rotating_ca.pem", folder.path);
    replace_file(ca_file, certificates[CA]);
    grpc_fixture_open(&fixture, &served, &options);
    assert_int_equal(grpc_fixture_run(&fixture)->cause, GRPC_CAUSE_TLS);
    replace_file(ca_file, certificates[OTHER_CA]);
    fixture.now_us += GRPC_SECRETS_INTERVAL_US;
    (void)grpc_client_step(fixture.client);
    assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
    grpc_fixture_close(&fixture);
}

static void a_server_that_dies_during_tls_ends_each_call_once(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct frontend_options served = {.certificate_file = certificates[SERVER], .key_file = keys[SERVER]};
    struct grpc_client_options options = {.ca_file = certificates[CA]};
    grpc_fixture_open(&fixture, &served, &options);
    for (int cut = 0; cut < 2; cut++) {
        fixture.script.fate = FATE_ANSWER;
        (void)grpc_fixture_run(&fixture);
        fixture.script.fate = cut == 0 ? FATE_CLOSE : FATE_CUT;
        struct grpc_ended *ended = grpc_fixture_run(&fixture);
        assert_int_equal(ended->outcome, GRPC_UNKNOWN);
        assert_int_equal(ended->cause, GRPC_CAUSE_CONNECTION_LOST);
    }
    grpc_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trusted_server_is_spoken_to),
        cmocka_unit_test(each_failure_has_a_hint_and_sends_no_call),
        cmocka_unit_test(versions_before_tls_1_2_are_refused),
        cmocka_unit_test(a_name_may_be_given_instead_of_the_hosts),
        cmocka_unit_test(a_client_certificate_is_shown_to_a_server_that_wants_one),
        cmocka_unit_test(files_that_cannot_be_used_are_refused_with_their_name),
        cmocka_unit_test(changed_secrets_are_used_without_dropping_a_call),
        cmocka_unit_test(an_api_key_may_be_in_a_variable),
        cmocka_unit_test(a_rotated_authority_is_used_by_the_next_connection),
        cmocka_unit_test(a_server_that_dies_during_tls_ends_each_call_once),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
