#include "engine/in_process/evaluator_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "definition/jq.h"
#include "support/test.h"

struct child {
    pid_t pid;
    int to;
    int from;
};

static int start_child(void **state)
{
    static struct child child;
    int to[2];
    int from[2];
    if (pipe(to) != 0 || pipe(from) != 0) {
        return -1;
    }
    child.pid = test_fork();
    if (child.pid == 0) {
        (void)close(to[1]);
        (void)close(from[0]);
        evaluator_main(to[0], from[1]);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    child.to = to[1];
    child.from = from[0];
    *state = &child;
    return child.pid < 0;
}

static int stop_child(void **state)
{
    struct child *child = *state;
    if (child->to >= 0) {
        (void)close(child->to);
    }
    (void)close(child->from);
    (void)kill(child->pid, SIGKILL);
    (void)waitpid(child->pid, NULL, 0);
    return 0;
}

static void send_bytes(const struct child *child, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t put = write(child->to, bytes, length);
        assert_true(put > 0);
        bytes += put;
        length -= (size_t)put;
    }
}

static void ask(const struct child *child, int64_t id, const char *program, const char *input)
{
    struct text frame = {.max = EVALUATOR_FRAME_BYTES_MAX + EVALUATOR_HEADER_BYTES};
    json_t *value = json_loads(input, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_int_equal(evaluator_request_write(id, program, value, &frame, NULL), WEIR_OK);
    send_bytes(child, frame.data, frame.length);
    json_decref(value);
    text_close(&frame);
}

/* False when the child has ended instead. */
static bool receive(const struct child *child, struct evaluator_answer *answer)
{
    struct text bytes = {.max = EVALUATOR_FRAME_BYTES_MAX + EVALUATOR_HEADER_BYTES};
    size_t used = 0;
    char buffer[4096];
    while (used == 0) {
        /* Byte by byte at first, so that no second answer is swallowed. */
        size_t want = bytes.length < EVALUATOR_HEADER_BYTES ? 1 : sizeof buffer;
        ssize_t got = read(child->from, buffer, want);
        if (got <= 0) {
            text_close(&bytes);
            return false;
        }
        assert_int_equal(text_add(&bytes, buffer, (size_t)got), WEIR_OK);
        assert_int_equal(evaluator_answer_read(bytes.data, bytes.length, answer, &used, NULL), WEIR_OK);
    }
    assert_int_equal(used, bytes.length);
    text_close(&bytes);
    return true;
}

static void expect_answer(const struct child *child, const char *program, const char *input, const char *value,
                          const char *fault)
{
    static int64_t id = 100;
    struct evaluator_answer answer = {.id = 0};
    ask(child, ++id, program, input);
    if (!receive(child, &answer)) {
        fail_msg("the evaluator died of %s", program);
    }
    assert_int_equal(answer.id, id);
    assert_string_equal(answer.error, fault);
    char *text = answer.value == NULL ? strdup("") : json_dumps(answer.value, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, value);
    free(text);
    json_decref(answer.value);
}

static void a_program_gives_its_value(void **state)
{
    expect_answer(*state, ".input.a | add", "{\"input\":{\"a\":[1,2,39]}}", "42", "");
    expect_answer(*state, ".", "{\"a\":[1,0.5,\"\\u00e9\\u0000\",null,true,false,{}]}",
                  "{\"a\":[1,0.5,\"\xc3\xa9\\u0000\",null,true,false,{}]}", "");
    expect_answer(*state, "9007199254740992 * 4", "null", "36028797018963968.0", "");
    expect_answer(*state, "nan", "null", "null", "");
}

static void a_failing_program_answers_with_its_message(void **state)
{
    expect_answer(*state, ".a.b", "{\"a\":1}", "", "Cannot index number with string \"b\"");
    expect_answer(*state, "empty", "1", "", "the expression gives no value");
    expect_answer(*state, "1, 2", "1", "", "the expression gives more than one value");
    expect_answer(*state, "1, error(\"x\")", "1", "", "x");
    expect_answer(*state, "error({a: 1})", "1", "", "{\"a\":1}");
    expect_answer(*state, ". +", "1", "", "syntax error, unexpected $end");
    expect_answer(*state, "halt", "1", "", "the expression gives no value");
    expect_answer(*state, "input", "1", "", "break");
    /* And it goes on. */
    expect_answer(*state, ". + 1", "1", "2", "");
}

static void programs_read_no_environment_and_no_files(void **state)
{
    expect_answer(*state, "env", "1", "{}", "");
    expect_answer(*state, "$ENV", "1", "{}", "");
    expect_answer(*state, "import \"a\" as a; 1", "1", "", "jq modules are not available");
    expect_answer(*state, " # x\n include \"a\"; 1", "1", "", "jq modules are not available");
    expect_answer(*state, "\"a\" | debug | stderr", "1", "\"a\"", "");
}

static void expect_refused(long answer)
{
    if (answer != -1 || errno != EPERM) {
        _exit(1);
    }
    _exit(0);
}

/* Calls that a flaw in jq could be used for, each in a child of its own that is confined like an evaluator. */
static void a_confined_process_has_no_network_no_files_and_no_other_process(void **state)
{
    (void)state;
    enum { CALLS = 13 };
    for (int call = -1; call < CALLS; call++) {
        int status = 0;
        pid_t parent = getpid();
        pid_t child = test_fork();
        assert_true(child >= 0);
        if (child == 0) {
            static char page[16384];
            jq_confine_process(NULL, 0);
            switch (call) {
            case 0:
                expect_refused(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
                break;
            case 1:
                expect_refused(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, page));
                break;
            case 2:
                expect_refused(syscall(SYS_sendto, 1, page, 1, 0, NULL, 0));
                break;
            case 3:
                expect_refused(syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
                break;
            case 4:
                expect_refused(syscall(SYS_execve, "/bin/true", NULL, NULL));
                break;
            case 5:
                expect_refused(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
                break;
            case 6:
                expect_refused(syscall(SYS_kill, parent, 0));
                break;
            case 7:
                expect_refused(syscall(SYS_tgkill, parent, parent, 0));
                break;
            case 8:
                expect_refused(syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, parent, NULL, NULL));
                break;
            case 9:
                expect_refused(syscall(SYS_prlimit64, parent, RLIMIT_NOFILE, NULL, page));
                break;
            case 10:
                expect_refused(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
                break;
            case 11:
                expect_refused(syscall(SYS_io_uring_setup, 1, page));
                break;
            case 12:
                expect_refused(syscall(SYS_unlinkat, AT_FDCWD, "/nowhere", 0));
                break;
            default:
                free(malloc(1 << 20));
                _exit(0); /* the needed files exist */
            }
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fail_msg("call %d: %x", call, (unsigned)status);
        }
    }
}

static void an_evaluator_is_confined(void **state)
{
    const struct child *child = *state;
    char path[64];
    char text[4096];
    expect_answer(child, "1", "1", "1", ""); /* it is ready */
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)child->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    assert_non_null(strstr(text, "Seccomp:\t2"));
    assert_non_null(strstr(text, "NoNewPrivs:\t1"));
}

/* One of each kind of built-in that might take a system call. */
static void a_confined_evaluator_computes_all_that_jq_can(void **state)
{
    static const char *const programs[][2] = {
        {"now > 1600000000", "true"},
        {"0 | todate", "\"1970-01-01T00:00:00Z\""},
        {"\"2015-03-05T23:51:47Z\" | fromdate", "1425599507"},
        {"1425599621 | gmtime | mktime", "1425599621"},
        {"0 | strftime(\"%A\")", "\"Thursday\""},
        {"0 | localtime | mktime == 0", "true"},
        {"\"10:32\" | strptime(\"%H:%M\") | .[3]", "10"},
        {"\"foo bar\" | test(\"o+ b\")", "true"},
        {"\"abc\" | gsub(\"b\"; \"x\")", "\"axc\""},
        {"[range(200000)] | map(. * 2) | add", "39999800000"},
        {"[3, 1, 2] | sort | tojson", "\"[1,2,3]\""},
        {"\"aGk=\" | @base64d", "\"hi\""},
        {"10 | [limit(3; repeat(.))] | length", "3"},
        {"[1, [2]] | flatten | group_by(. > 1) | length", "2"},
        {"try error(\"x\") catch .", "\"x\""},
        {"pow(2; 10) + (2 | sqrt | floor)", "1025"},
        {"\"x\" * 1000000 | length", "1000000"},
    };
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        expect_answer(*state, programs[i][0], "null", programs[i][1], "");
    }
}

static void more_programs_than_the_cache_holds_still_work(void **state)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < EVALUATOR_PROGRAMS_MAX + 6; i++) {
            char program[32];
            char value[32];
            (void)snprintf(program, sizeof program, ". + %d", i);
            (void)snprintf(value, sizeof value, "%d", i + 1);
            expect_answer(*state, program, "1", value, "");
        }
    }
}

/* The processor time of the evaluator, which a busy machine does not change. */
static int64_t processor_us(const struct child *child)
{
    clockid_t clock;
    struct timespec used;
    assert_int_equal(clock_getcpuclockid(child->pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

static void a_program_is_compiled_once(void **state)
{
    enum { COUNT = 5 };
    expect_answer(*state, ". + 0", "1", "1", ""); /* it is ready */
    int64_t before_us = processor_us(*state);
    for (int i = 1; i <= COUNT; i++) {
        char program[32];
        char value[32];
        (void)snprintf(program, sizeof program, ". + %d", i);
        (void)snprintf(value, sizeof value, "%d", i + 1);
        expect_answer(*state, program, "1", value, "");
    }
    int64_t different_us = processor_us(*state) - before_us;
    for (int i = 0; i < COUNT; i++) {
        expect_answer(*state, ". + 1", "1", "2", "");
    }
    int64_t same_us = processor_us(*state) - before_us - different_us;
    assert_true(same_us < different_us / 4);
}

static void answers_come_in_the_order_of_the_requests(void **state)
{
    for (int64_t id = 1; id <= 20; id++) {
        ask(*state, id, id % 2 ? ".a" : ".b", "{\"a\":1,\"b\":2}");
    }
    for (int64_t id = 1; id <= 20; id++) {
        /* One answer at a time: their size is known. */
        char bytes[64];
        size_t used = 0;
        size_t length = 0;
        struct evaluator_answer answer = {.id = 0};
        while (used == 0) {
            assert_int_equal(read(((struct child *)*state)->from, bytes + length, 1), 1);
            length++;
            assert_int_equal(evaluator_answer_read(bytes, length, &answer, &used, NULL), WEIR_OK);
        }
        assert_int_equal(answer.id, id);
        assert_int_equal(json_integer_value(answer.value), id % 2 ? 1 : 2);
        json_decref(answer.value);
    }
}

static char *nested(int depth)
{
    char *text = malloc((size_t)depth * 2 + 2);
    assert_non_null(text);
    memset(text, '[', (size_t)depth);
    text[depth] = '1';
    memset(text + depth + 1, ']', (size_t)depth);
    text[depth * 2 + 1] = '\0';
    return text;
}

static void depth_of_values_is_bounded(void **state)
{
    char *deepest = nested(JSON_DEPTH_MAX);
    expect_answer(*state, "[.. | numbers] | first", deepest, "1", "");
    expect_answer(*state, ".", deepest, "", "the value is nested deeper than 63 levels, or has a key with a NUL in it");
    free(deepest);
    char *deep = nested(JSON_DEPTH_MAX - 1);
    expect_answer(*state, ".", deep, deep, "");
    free(deep);
    expect_answer(*state, "reduce range(5000) as $i (1; [.])", "1", "",
                  "the value is nested deeper than 63 levels, or has a key with a NUL in it");
}

static void an_answer_that_is_too_large_is_an_error(void **state)
{
    expect_answer(*state, "\"x\" * 5000000", "1", "", "the data of the expression is larger than 4194304 bytes");
    expect_answer(*state, "1", "1", "1", "");
}

static void a_request_that_is_too_large_is_refused_before_it_is_sent(void **state)
{
    (void)state;
    struct text frame = {.max = 8 * 1024 * 1024};
    struct weir_error fault;
    char *large = malloc(EVALUATOR_FRAME_BYTES_MAX);
    assert_non_null(large);
    memset(large, 'x', EVALUATOR_FRAME_BYTES_MAX);
    json_t *input = json_stringn(large, EVALUATOR_FRAME_BYTES_MAX);
    assert_int_equal(evaluator_request_write(1, ".", input, &frame, &fault), WEIR_FAILED);
    assert_int_equal(frame.length, 0);
    json_decref(input);
    free(large);
    text_close(&frame);
}

static void the_end_of_the_input_ends_the_evaluator(void **state)
{
    struct child *child = *state;
    int status = 0;
    expect_answer(child, "1", "1", "1", "");
    (void)close(child->to);
    child->to = -1;
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void an_invalid_request_ends_the_evaluator(void **state)
{
    static const char garbage[] = "\0\0\0\2{]";
    struct child *child = *state;
    struct evaluator_answer answer;
    send_bytes(child, garbage, sizeof garbage - 1);
    assert_false(receive(child, &answer));
}

static void a_frame_beyond_the_limit_ends_the_evaluator(void **state)
{
    struct child *child = *state;
    struct evaluator_answer answer;
    send_bytes(child, "\x7f\xff\xff\xff", 4);
    assert_false(receive(child, &answer));
}

static void a_program_without_end_can_be_killed(void **state)
{
    struct child *child = *state;
    struct evaluator_answer answer;
    ask(child, 1, "def f: f; f", "1");
    struct pollfd silence = {.fd = child->from, .events = POLLIN};
    assert_int_equal(poll(&silence, 1, 100), 0);
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_false(receive(child, &answer));
}

static void memory_is_bounded(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
#else
    struct child *child = *state;
    struct evaluator_answer answer;
    ask(child, 1, "[range(1000000000)]", "1");
    assert_false(receive(child, &answer));
#endif
}

static void an_invalid_answer_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } cases[] = {{"\0\0\0\2{]", 6},
                 {"\0\0\0\2{}", 6},
                 {"\xff\0\0\0", 4},
                 {"\0\0\0\x08{\"id\":1}", 12},
                 {"\0\0\0\x1c{\"id\":1,\"value\":1,\"error\":\"\"}", 34},
                 {"\0\0\0\x02[]", 6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct evaluator_answer answer = {.id = 7};
        size_t used = 99;
        struct weir_error fault;
        assert_int_equal(evaluator_answer_read(cases[i].bytes, cases[i].length, &answer, &used, &fault), WEIR_FAILED);
        assert_int_equal(used, 99);
        assert_int_equal(answer.id, 7);
    }
    struct evaluator_answer answer;
    size_t used = 99;
    for (size_t length = 0; length < 12; length++) {
        assert_int_equal(evaluator_answer_read("\0\0\0\x08{\"id\":1}", length, &answer, &used, NULL), WEIR_OK);
        assert_int_equal(used, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_child, stop_child)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_program_gives_its_value),
        TEST(a_failing_program_answers_with_its_message),
        TEST(programs_read_no_environment_and_no_files),
        TEST(an_evaluator_is_confined),
        TEST(a_confined_evaluator_computes_all_that_jq_can),
        TEST(more_programs_than_the_cache_holds_still_work),
        TEST(a_program_is_compiled_once),
        TEST(answers_come_in_the_order_of_the_requests),
        TEST(depth_of_values_is_bounded),
        TEST(an_answer_that_is_too_large_is_an_error),
        TEST(the_end_of_the_input_ends_the_evaluator),
        TEST(an_invalid_request_ends_the_evaluator),
        TEST(a_frame_beyond_the_limit_ends_the_evaluator),
        TEST(a_program_without_end_can_be_killed),
        TEST(memory_is_bounded),
        cmocka_unit_test(a_confined_process_has_no_network_no_files_and_no_other_process),
        cmocka_unit_test(a_request_that_is_too_large_is_refused_before_it_is_sent),
        cmocka_unit_test(an_invalid_answer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
