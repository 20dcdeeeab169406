#include "definition/expression.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "definition/jq.h"
#include "support/test.h"

static struct arena arena;
static struct weir_error fault;
static struct template_fault place;
static json_t *context;

static const char context_text[] =
    "{\"input\":{\"customer\":\"Ana "
    "\\\"x\\\"\",\"n\":42,\"f\":0.1,\"big\":9007199254740993,\"no\":false,\"nil\":null,\"list\":[1,"
    "[2,3],{\"k\":\"v\"}],\"and\":1,\"a "
    "b\":2,\"\":3,\"empty\":\"\"},\"steps\":{\"fetch\":{\"output\":{\"ok\":true,\"total\":7}},"
    "\"my-step\":{\"output\":\"text\"}}}";

static int open_all(void **state)
{
    (void)state;
    arena_init(&arena, 8 * 1024 * 1024);
    memset(&fault, 0, sizeof fault);
    context = json_loads(context_text, 0, NULL);
    return context == NULL;
}

static int close_all(void **state)
{
    (void)state;
    json_decref(context);
    arena_close(&arena);
    return 0;
}

static const struct template *parse(const char *text)
{
    const struct template *template = NULL;
    if (template_parse(text, strlen(text), &arena, &template, &place, &fault) != WEIR_OK) {
        fail_msg("%s: %s", text, fault.message);
    }
    return template;
}

/* libjq in this process, as an evaluator would run it. */
static enum weir_status run_jq(void *unused, const char *text, const json_t *input, json_t **ret_value,
                               struct weir_error *error)
{
    (void)unused;
    struct jq_program *program = NULL;
    enum weir_status status = jq_program_open(text, &program, error);
    status = status == WEIR_OK ? jq_program_run(program, input, ret_value, error) : WEIR_FAILED;
    jq_program_close(program);
    return status;
}

static void expect_text(const char *source, const char *expected)
{
    struct text text = {.max = 4096};
    if (template_evaluate_text(parse(source), context, run_jq, NULL, &text, &fault) != WEIR_OK) {
        fail_msg("%s: %s", source, fault.message);
    }
    assert_string_equal(text.data, expected);
    text_close(&text);
}

static void expect_failure(const char *source, const char *message)
{
    struct text text = {.max = 4096};
    assert_int_equal(text_add_string(&text, "before"), WEIR_OK);
    assert_int_equal(template_evaluate_text(parse(source), context, run_jq, NULL, &text, &fault), WEIR_FAILED);
    assert_string_equal(fault.message, message);
    assert_string_equal(text.data, "before");
    text_close(&text);
}

static char *evaluate(const char *source)
{
    json_t *value = NULL;
    if (template_evaluate(parse(source), context, run_jq, NULL, &value, &fault) != WEIR_OK) {
        fail_msg("%s: %s", source, fault.message);
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(value);
    return text;
}

static void expect_json(const char *source, const char *expected)
{
    char *text = evaluate(source);
    assert_string_equal(text, expected);
    free(text);
}

static void text_around_expressions_is_filled_in(void **state)
{
    (void)state;
    expect_text("", "");
    expect_text("plain", "plain");
    expect_text("a ${.input.n} b${.steps.fetch.output}c", "a 42 b{\"ok\":true,\"total\":7}c");
    expect_text("${.input.customer}${.input.no}", "Ana \"x\"false");
    expect_text("${ .input.n }", "42");
    expect_text("${.input.f}", "0.1");
    expect_text("${.input.big}", "9007199254740993");
    expect_text("${.input.list | length}!", "3!");
}

static void exactly_one_expression_keeps_the_type(void **state)
{
    (void)state;
    expect_json("${.input.n}", "42");
    expect_json("${.input.nil}", "null");
    expect_json("${.steps.fetch.output.ok}", "true");
    expect_json(" ${.input.n}", "\" 42\"");
    expect_json("${[.input.n, 1] | add}", "43");
    expect_json("", "\"\"");
}

static void what_is_not_an_expression_stays_as_it_is(void **state)
{
    (void)state;
    expect_text("$${.input.n}", "${.input.n}");
    expect_text("$$${.input.n}", "$${.input.n}");
    expect_text("${HOME} $HOME $ { $( ${_a1} $", "${HOME} $HOME $ { $( ${_a1} $");
    expect_text("100% }{ $", "100% }{ $");
}

static void brackets_strings_and_comments_do_not_end_an_expression(void **state)
{
    (void)state;
    expect_text("${ {a: {b: .input.n}} | .a.b }", "42");
    expect_text("${ \"}\" + .input.empty }", "}");
    expect_text("${ \"\\\"}\\(\"{\" + (.input.n | tostring))}\" }|", "\"}{42}|");
    expect_text("${ .input.n # } comment\n }", "42");
}

static void expect_fault(const char *source, size_t offset, const char *message)
{
    const struct template *template = NULL;
    assert_int_equal(template_parse(source, strlen(source), &arena, &template, &place, &fault), WEIR_INVALID_DEFINITION);
    assert_null(template);
    assert_string_equal(fault.message, message);
    assert_int_equal(place.offset, offset);
}

static void a_broken_expression_is_told_with_its_place(void **state)
{
    (void)state;
    expect_fault("ab ${.input", 3, "the expression has no closing \"}\"");
    expect_fault("ab ${}", 5, "the expression is empty");
    expect_fault("${ (.a] }", 6, "a closing bracket in the expression has no opening one");
    expect_fault("${ .a) }", 5, "a closing bracket in the expression has no opening one");
    expect_fault("x${ \"abc }", 1, "the expression has no closing \"}\"");
    expect_fault("x${input}", 3, "an expression starts with a dot here");
    expect_fault("x${input.a}", 3, "an expression starts with a dot here");
    expect_fault("x${ steps.a.output }", 4, "an expression starts with a dot here");
    expect_fault("x{{ .input.a }}", 1, "{{ }} is no expression here");
    expect_fault("{{$input.a}}", 0, "{{ }} is no expression here");
}

static void a_nul_is_no_part_of_an_expression(void **state)
{
    (void)state;
    const struct template *template = NULL;
    assert_int_equal(template_parse("a\0${.a\0b}", 10, &arena, &template, &place, &fault), WEIR_INVALID_DEFINITION);
    assert_string_equal(fault.message, "a NUL in the expression");
    assert_int_equal(place.offset, 4);
    assert_int_equal(template_parse("a\0${.a}", 8, &arena, &template, &place, &fault), WEIR_OK);
    assert_int_equal(template->parts[0].length, 2);
}

static void nesting_and_size_are_bounded(void **state)
{
    (void)state;
    char source[4096] = "${";
    memset(source + 2, '[', 1000);
    memset(source + 1002, ']', 1000);
    source[2002] = '}';
    expect_fault(source, 2 + EXPRESSION_NESTING_MAX, "brackets in the expression are nested too deep");
    size_t length = TEMPLATE_BYTES_MAX + 1;
    char *large = malloc(length);
    assert_non_null(large);
    memset(large, '$', length);
    memcpy(large, "${.}", 4);
    const struct template *template = NULL;
    assert_int_equal(template_parse(large, length, &arena, &template, NULL, &fault), WEIR_INVALID_DEFINITION);
    assert_int_equal(template_parse(large, length - 1, &arena, &template, NULL, &fault), WEIR_OK);
    for (size_t i = 0; i + 4 <= length; i += 4) {
        memcpy(large + i, "${.}", 4);
    }
    assert_int_equal(template_parse(large, 4 * TEMPLATE_PARTS_MAX, &arena, &template, NULL, &fault), WEIR_OK);
    assert_int_equal(template_parse(large, 4 * TEMPLATE_PARTS_MAX + 4, &arena, &template, NULL, &fault),
                     WEIR_INVALID_DEFINITION);
    assert_string_equal(fault.message, "too many expressions in one text");
    free(large);
}

static void a_missing_value_never_becomes_the_word_null(void **state)
{
    (void)state;
    expect_failure("a ${.input.none} b", "${.input.none}: there is no value here (null)");
    expect_failure("${.input.nil}", "${.input.nil}: there is no value here (null)");
    expect_failure("${.input.list[9] // null}", "${.input.list[9] // null}: there is no value here (null)");
    expect_text("${.input.none // \"x\"}", "x");
}

static void a_failing_expression_is_named(void **state)
{
    (void)state;
    expect_failure("${.input.n.a}", "${.input.n.a}: Cannot index number with string \"a\"");
    expect_failure("${.input.n | .a}", "${.input.n | .a}: Cannot index number with string \"a\"");
    expect_failure("${ (empty) }", "${(empty)}: the expression gives no value");
    expect_failure("${.input.list[]}", "${.input.list[]}: the expression gives more than one value");
    expect_failure("${error(\"x\\ny\")}", "${error(\"x\\ny\")}: x y");
    expect_failure("${.steps[\"my-step\"].output | error(\"x\")}",
                   "${.steps[\"my-step\"].output | error(\"x\")}: x"); /* not because it is text */
    expect_failure(
        "${.steps[\"my-step\"].output.x}",
        "${.steps[\"my-step\"].output.x}: Cannot index string with string \"x\": the output of step \"my-step\" is"
        " text, not JSON, and begins with \"text\"; print nothing but JSON on stdout, or write it to the file"
        " $WEIR_OUTPUT");
}

/* An evaluator of a daemon that was started without standard streams may have its pipe there. */
static void a_confined_process_keeps_its_descriptors_below_3(void **state)
{
    (void)state;
    int pipe_fds[2];
    char answer = '\0';
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t child = test_fork();
    if (child == 0) {
        int kept = dup2(pipe_fds[1], 1);
        jq_confine_process(&kept, 1);
        _exit(write(kept, "k", 1) == 1 && write(2, "n", 1) == 1 ? 0 : 1);
    }
    (void)close(pipe_fds[1]);
    assert_true(child > 0);
    assert_int_equal(read(pipe_fds[0], &answer, 1), 1);
    assert_int_equal(answer, 'k');
    (void)close(pipe_fds[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static enum weir_status answer_later(void *calls, const char *text, const json_t *input, json_t **ret_value,
                                     struct weir_error *error)
{
    (void)text;
    (void)input;
    (void)ret_value;
    (void)error;
    ++*(int *)calls;
    return WEIR_STORE_BUSY;
}

static void another_status_of_the_callback_goes_through(void **state)
{
    (void)state;
    int calls = 0;
    struct text text = {.max = 100};
    json_t *value = NULL;
    const struct template *template = parse("a${.input.n}${.input | keys}${. | keys}");
    assert_int_equal(template_evaluate_text(template, context, answer_later, &calls, &text, NULL), WEIR_STORE_BUSY);
    assert_int_equal(template_evaluate(template, context, answer_later, &calls, &value, NULL), WEIR_STORE_BUSY);
    assert_int_equal(calls, 2);
    assert_int_equal(template_evaluate_text(template, context, NULL, NULL, &text, NULL), WEIR_MISUSE);
    assert_int_equal(text.length, 0);
    text_close(&text);
}

static void text_is_bounded_by_its_buffer(void **state)
{
    (void)state;
    struct text text = {.max = 5};
    assert_int_equal(template_evaluate_text(parse("12${.input.n}${.input.n}"), context, NULL, NULL, &text, &fault),
                     WEIR_FAILED);
    assert_string_equal(fault.message, "JSON text is larger than 5 bytes");
    assert_int_equal(text.length, 0);
    text_close(&text);
}

static void truth_is_jqs_truth(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        bool is_true;
    } cases[] = {{"${.input.no}", false},     {"${.input.nil}", false},     {"${.input.none.x}", false},
                 {"${.input.empty}", true},   {"${.input.n}", true},        {"${0}", true},
                 {"${.input.n > 50}", false}, {"${.input.list[7]}", false}, {"${[]}", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool is_true = !cases[i].is_true;
        assert_int_equal(template_evaluate_condition(parse(cases[i].source), context, run_jq, NULL, &is_true, &fault),
                         WEIR_OK);
        assert_int_equal(is_true, cases[i].is_true);
    }
}

/* The path reader against jq itself: the same value, or both fail with the same message. */
static void check_parity(const char *text)
{
    const struct path_step *steps = NULL;
    size_t count = 0;
    const json_t *found = NULL;
    json_t *value = NULL;
    struct weir_error jq_fault = {.status = WEIR_OK};
    assert_true(path_parse(text, strlen(text), &arena, &steps, &count));
    enum weir_status status = path_follow(steps, count, context, &found, &fault);
    enum weir_status jq_status = run_jq(NULL, text, context, &value, &jq_fault);
    if (status != jq_status || (status != WEIR_OK && strcmp(fault.message, jq_fault.message) != 0)) {
        fail_msg("%s: %d %s, jq %d %s", text, status, fault.message, jq_status, jq_fault.message);
    }
    if (status == WEIR_OK) {
        char *ours = found == NULL ? strdup("null") : json_dumps(found, JSON_ENCODE_ANY | JSON_SORT_KEYS);
        char *theirs = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS);
        assert_string_equal(ours, theirs);
        free(ours);
        free(theirs);
    }
    json_decref(value);
}

static void plain_paths_mean_what_they_mean_in_jq(void **state)
{
    (void)state;
    static const char *const paths[] = {".input.customer",
                                        ".input.n",
                                        ".input.f",
                                        ".input.nil",
                                        ".input.nil.a.b[3]",
                                        ".input.none.x",
                                        ".input.list[0]",
                                        ".input.list[-1].k",
                                        ".input.list[1][0]",
                                        ".input.list[99]",
                                        ".input.list[-99]",
                                        ".input.list.a",
                                        ".input.n.a",
                                        ".input.n[0]",
                                        ".input[0]",
                                        ".input.customer.a",
                                        ".input.customer[0]",
                                        ".input.no.a",
                                        ".input.no[0]",
                                        ".[\"input\"][\"a b\"]",
                                        ".input[\"\"]",
                                        ".input.\"a b\"",
                                        ".\"input\".n",
                                        ".steps[\"my-step\"].output",
                                        ".input.and",
                                        ".steps.fetch.output.total",
                                        ".input.list[2][\"k\"]",
                                        "._a",
                                        ".input.list[1].a",
                                        ".input.list[2][0]"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        check_parity(paths[i]);
    }
}

static void what_is_more_than_a_path_is_left_to_jq(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",       "a",       ".a.", ".a b",  "..",     ".a[]",     ".a?",         ".a[1:2]", ".a|.b",   ".a-b",
        ".1",     ".[",      ".a[", ".a[\"", ".a[\"x", ".a[\"x\"", ".a[\"\\n\"]", ".a[01]",  ".a[1.5]", ".a[99999999999]",
        ".a.[0]", ".a[ 0 ]", ".é",  ".\"a",  ".a[-]",  ".a[.b]"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const struct path_step *steps = NULL;
        size_t count = 0;
        /* An exact copy, so that a look behind the end is seen by the sanitizers. */
        size_t length = strlen(others[i]);
        char *copy = malloc(length + (length == 0));
        assert_non_null(copy);
        memcpy(copy, others[i], length);
        if (path_parse(copy, length, &arena, &steps, &count)) {
            fail_msg("%s is taken for a path", others[i]);
        }
        free(copy);
    }
}

struct collected {
    char words[256];
};

static enum weir_status collect(void *to, const struct template *template, const char *word, size_t length, size_t offset)
{
    struct collected *collected = to;
    (void)template;
    size_t used = strlen(collected->words);
    (void)snprintf(collected->words + used, sizeof collected->words - used, "%.*s@%zu ", (int)length, word, offset);
    return WEIR_OK;
}

static void references_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        const char *words;
    } cases[] = {{"${.steps.a.output}", "a@2 "},
                 {"x ${ .steps[\"my-step\"].output }${.steps.b}", "my-step@5 b@33 "},
                 {"${[.steps.a.output, .steps[\"b\"]] | add}", "a@10 b@28 "},
                 {"${.input.steps.a}${.steps}${.steps | keys}${.input | .x.steps.y}", ""},
                 {"${ \".steps.a \\(.steps.c)\" }", "c@22 "},
                 {"${.stepsx.a}${.steps[0]}$${.steps.z}", ""},
                 {"${.a # .steps.b\n}", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct collected collected = {.words = ""};
        assert_int_equal(expression_references(parse(cases[i].source), collect, &collected), WEIR_OK);
        assert_string_equal(collected.words, cases[i].words);
    }
}

static enum weir_status collect_path(void *to, const struct path_step *steps, size_t count, size_t offset)
{
    struct collected *collected = to;
    size_t used = strlen(collected->words);
    for (size_t i = 0; i < count; i++) {
        int length = steps[i].key == NULL ? 1 : (int)steps[i].key_length;
        used += (size_t)snprintf(collected->words + used, sizeof collected->words - used, ".%.*s", length,
                                 steps[i].key == NULL ? "#" : steps[i].key);
    }
    (void)snprintf(collected->words + used, sizeof collected->words - used, "@%zu ", offset);
    return WEIR_OK;
}

/* Only paths that are read from the context in every case: a false one would refuse a right definition. */
static void paths_that_begin_at_the_context_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        const char *words;
    } cases[] = {
        {"${.a.b[\"c\"].d} ${.} ${.[\"e\"][0]}", ".a.b.c@2 .e.#@22 "},
        {"${.a | .b}", ".a@2 "},
        {"${.a // .b}", ".a@2 .b@8 "},
        {"${{x: .a, y: (.b[.c] + 1), \"z\": \"v \\(.d) .e\"}}", ".a@6 .b@14 .c@17 .d@37 "},
        {"${if .a and .b then .c else .d end}", ".a@5 .b@12 .c@20 .d@28 "},
        {"${if(.a)then.b else try .c end}", ".a@5 .b@12 .c@24 "},
        {"${.a .b}${.a[] .b}${\"x\" .b}${.and .b}${.\"a\" .b}", ".a@2 .a@10 .and@29 .a@39 "},
        {"${[.input[] | .a]}${(.x | .y) + .z}", ".input@3 .x@21 "},
        {"${map(.a)}${map (.a)}${has(\"a\") and .b}", ""},
        {"${reduce .a[] as $x (0; . + .b)}${.a as $x | .b}${def f: .a; f}", ".a@34 "},
        {"${try error catch .a}${label $f | .a}${foreach .a[] as $x (0; .b)}", ""},
        {"${.a = 1}${.b |= 2 | .c}${.d += 1}${.e //= 1}", ""},
        {"${.a == 1}${.b != 1}${.c >= 1}${.d <= 1}", ".a@2 .b@12 .c@22 .d@32 "},
        {"${.a # = .b\n}${.. | .c}${$ENV.d}${env.e}${1.5 + .f}", ".a@2 .f@48 "},
        {"${.[] | .a}${..}${.[0].a}", ".#.a@18 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct collected collected = {.words = ""};
        assert_int_equal(expression_paths(parse(cases[i].source), collect_path, &collected), WEIR_OK);
        assert_string_equal(collected.words, cases[i].words);
    }
}

static void programs_are_listed_and_paths_are_not(void **state)
{
    (void)state;
    struct collected collected = {.words = ""};
    assert_int_equal(template_each_program(parse("${.a}${ .b|.c }${1}x"), collect, &collected), WEIR_OK);
    assert_string_equal(collected.words, ".b|.c@8 1@17 ");
}

static void a_full_arena_is_out_of_memory(void **state)
{
    (void)state;
    static const char source[] = "abc ${.a.b[\"c\"]} $${ ${.a | .b}";
    bool was_enough = false;
    for (size_t bytes = 0; bytes < 4000; bytes += 8) {
        struct arena small;
        arena_init(&small, bytes);
        const struct template *template = NULL;
        enum weir_status status = template_parse(source, sizeof source - 1, &small, &template, NULL, &fault);
        assert_true(status == WEIR_OUT_OF_MEMORY || status == WEIR_OK);
        was_enough = status == WEIR_OK;
        arena_close(&small);
    }
    assert_true(was_enough);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_around_expressions_is_filled_in),
        TEST(exactly_one_expression_keeps_the_type),
        TEST(what_is_not_an_expression_stays_as_it_is),
        TEST(brackets_strings_and_comments_do_not_end_an_expression),
        TEST(a_broken_expression_is_told_with_its_place),
        TEST(a_nul_is_no_part_of_an_expression),
        TEST(nesting_and_size_are_bounded),
        TEST(a_missing_value_never_becomes_the_word_null),
        TEST(a_failing_expression_is_named),
        TEST(a_confined_process_keeps_its_descriptors_below_3),
        TEST(another_status_of_the_callback_goes_through),
        TEST(text_is_bounded_by_its_buffer),
        TEST(truth_is_jqs_truth),
        TEST(plain_paths_mean_what_they_mean_in_jq),
        TEST(what_is_more_than_a_path_is_left_to_jq),
        TEST(references_are_found),
        TEST(paths_that_begin_at_the_context_are_told),
        TEST(programs_are_listed_and_paths_are_not),
        TEST(a_full_arena_is_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
