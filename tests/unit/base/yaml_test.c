#include "base/yaml_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"

static const struct yaml_source source = {"file.yaml", WEIR_INVALID_DEFINITION};

static struct arena arena;
static struct weir_error fault;

static int open_arena(void **state)
{
    (void)state;
    arena_init(&arena, 64 * 1024 * 1024);
    memset(&fault, 0, sizeof fault);
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    arena_close(&arena);
    return 0;
}

static const struct yaml_node *read_fine(const char *text)
{
    const struct yaml_node *root = NULL;
    assert_int_equal(yaml_read(text, strlen(text), &source, &arena, &root, &fault), WEIR_OK);
    assert_non_null(root);
    return root;
}

static void expect_fault(const char *text, size_t length, const char *start)
{
    const struct yaml_node *root = NULL;
    assert_int_equal(yaml_read(text, length, &source, &arena, &root, &fault), WEIR_INVALID_DEFINITION);
    assert_null(root);
    if (strncmp(fault.message, start, strlen(start)) != 0) {
        fail_msg("got \"%s\", expected \"%s...\"", fault.message, start);
    }
}

/* The library loses memory when it joins more than eight pieces; the address sanitizer saw that. */
static void a_scalar_of_many_pieces_is_whole(void **state)
{
    (void)state;
    const struct yaml_node *map =
        read_fine("'it''s ''a'' ''b'' ''c'' ''d''': \"\\n\\t\\n\\t\\n\\t\\n\\t\\n\\t\\u00e9\\x41 folded\n  line\"\n"
                  "block: |\n  a\n  b\n\n  c\n  d\n  e\n  f\n  g\n  h\n  i\n"
                  "empty: ''\n");
    assert_int_equal(map->count, 3);
    assert_string_equal(map->keys[0]->text, "it's 'a' 'b' 'c' 'd'");
    assert_string_equal(map->values[0]->text, "\n\t\n\t\n\t\n\t\n\t\303\251A folded line");
    assert_int_equal(map->values[0]->length, strlen(map->values[0]->text));
    assert_string_equal(map->values[1]->text, "a\nb\n\nc\nd\ne\nf\ng\nh\ni\n");
    assert_string_equal(map->values[2]->text, "");
}

/* The library reports a failure for one that ends with the file, after a space. */
static void a_block_without_a_line_is_empty(void **state)
{
    (void)state;
    static const char *const blocks[] = {"a: |",     "a: |\n",      "a: |\n ",        "a: >\n ",
                                         "a: |2\n ", "a: |-\n\n  ", "a: |\n \nb: c\n"};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const struct yaml_node *map = read_fine(blocks[i]);
        assert_string_equal(map->values[0]->text, "");
        assert_int_equal(map->values[0]->length, 0);
    }
}

static void plain_scalars_follow_the_core_schema(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum yaml_kind kind;
        double number;
    } cases[] = {
        {"1", YAML_INTEGER, 1},       {"-7", YAML_INTEGER, -7},   {"0o17", YAML_INTEGER, 15}, {"0xff", YAML_INTEGER, 255},
        {"1.5", YAML_NUMBER, 1.5},    {"1e3", YAML_NUMBER, 1000}, {".5", YAML_NUMBER, 0.5},   {"+2.", YAML_NUMBER, 2},
        {"true", YAML_BOOLEAN, 0},    {"False", YAML_BOOLEAN, 0}, {"~", YAML_NULL, 0},        {"null", YAML_NULL, 0},
        {"yes", YAML_STRING, 0},      {"on", YAML_STRING, 0},     {"1h", YAML_STRING, 0},     {"'1'", YAML_STRING, 0},
        {"\"true\"", YAML_STRING, 0}, {"1.2.3", YAML_STRING, 0},  {"e3", YAML_STRING, 0},     {"0o8", YAML_STRING, 0},
        {"-", YAML_LIST, 0},          {"12e", YAML_STRING, 0},    {".", YAML_STRING, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct yaml_node *node = read_fine(cases[i].text);
        if (node->kind != cases[i].kind) {
            fail_msg("%s is read as %s", cases[i].text, yaml_kind_name(node->kind));
        }
        if (node->kind == YAML_INTEGER || node->kind == YAML_NUMBER) {
            assert_true(node->number == cases[i].number);
        }
    }
}

static void nodes_know_line_and_column(void **state)
{
    (void)state;
    const struct yaml_node *root = read_fine("# comment\na: 1\nb:\n  - x\n  - \"y\"\n  - é: z\n");
    const struct yaml_node *list = yaml_get(root, "b");
    assert_int_equal(list->count, 3);
    assert_int_equal(root->keys[0]->line, 2);
    assert_int_equal(yaml_get(root, "a")->column, 4);
    assert_int_equal(list->values[1]->line, 5);
    assert_int_equal(list->values[1]->column, 5);
    assert_int_equal(list->values[2]->values[0]->line, 6);
    assert_int_equal(list->values[2]->values[0]->column, 8);
}

static void json_is_read_as_well(void **state)
{
    (void)state;
    const struct yaml_node *root = read_fine("{\n\t\"a\": [1, 2.5, \"x\\u00e9\\n\", null, true],\n\t\"b\":{\"c\":\"d\"}}");
    const struct yaml_node *list = yaml_get(root, "a");
    assert_int_equal(list->count, 5);
    assert_string_equal(list->values[2]->text, "x\xc3\xa9\n");
    assert_int_equal(list->values[3]->kind, YAML_NULL);
    assert_string_equal(yaml_get(yaml_get(root, "b"), "c")->text, "d");
}

static void strict_json_gives_the_same_tree(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,0.1,\"\\u007f\\u0085\",null,true],\"b\":{}}";
    const struct yaml_node *root = NULL;
    assert_int_equal(yaml_read_json(text, sizeof text - 1, &source, &arena, &root, &fault), WEIR_OK);
    const struct yaml_node *list = yaml_get(root, "a");
    assert_int_equal(list->values[0]->integer, 1);
    assert_string_equal(list->values[1]->text, "0.1");
    assert_string_equal(list->values[2]->text, "\x7f\xc2\x85");
    assert_int_equal(list->values[3]->kind, YAML_NULL);
    assert_true(list->values[4]->boolean);
    assert_int_equal(yaml_get(root, "b")->kind, YAML_MAP);
    assert_int_equal(yaml_read_json("{,}", 3, &source, &arena, &root, &fault), WEIR_INVALID_DEFINITION);
    assert_non_null(strstr(fault.message, "file.yaml: not JSON"));
}

#define FAULT(text, start) expect_fault(text, sizeof(text) - 1, start)

static void what_is_not_one_plain_document_is_refused(void **state)
{
    (void)state;
    FAULT("", "file.yaml:1:1: the file is empty");
    FAULT("# nothing\n", "file.yaml:1:1: the file is empty");
    FAULT("a: 1\n---\nb: 2\n", "file.yaml:2:1: a file holds one document");
    FAULT("a: &x 1\nb: *x\n", "file.yaml:1:7: anchors and aliases are not supported");
    FAULT("a: *x\n", "file.yaml:1:");
    FAULT("a: !!str 1\n", "file.yaml:1:10: tags are not supported");
    FAULT("a: 1\nb: [1, 2\n", "file.yaml:3:1: not valid YAML or JSON: flow sequence without a closing bracket");
    FAULT("a: 1\n b: 2\n", "file.yaml:1:4: not valid YAML or JSON: invalid multiline plain key");
    FAULT("a: 1\nb: \"x\n", "file.yaml:2:5: not valid YAML or JSON: double-quoted scalar without closing quote");
    FAULT("a:\n\tb: 1\n", "file.yaml:2:1: not valid YAML or JSON: tab character may not be used as indentation");
    FAULT("? [a]\n: b\n", "file.yaml:1:3: a key must be text, not a list");
    FAULT("a\0b: 1\n", "file.yaml:1:2: the control character 0x00");
    FAULT("a: \x1b[1m\n", "file.yaml:1:4: the control character 0x1b");
    FAULT("a: \xff\n", "file.yaml: not UTF-8");
    FAULT("a: .inf\n", "file.yaml:1:4: .inf is no number that JSON can hold");
    FAULT("a: 1e999\n", "file.yaml:1:4: 1e999 is no number");
    FAULT("a: 99999999999999999999\n", "file.yaml:1:4: the integer 99999999999999999999 does not fit");
}

static void a_duplicate_key_is_refused_where_it_stands(void **state)
{
    (void)state;
    FAULT("a: 1\nb: 2\na: 3\n", "file.yaml:3:1: the key \"a\" appears twice");
    assert_string_equal(fault.hint, "the first one is at line 1");
    FAULT("{\"a\": {\"x\": 1, \"x\": 2}}", "file.yaml:1:16: the key \"x\" appears twice");
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    char text[4096];
    for (size_t depth = 40; depth <= 2000; depth *= 7) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        const struct yaml_node *root = NULL;
        assert_int_equal(yaml_read(text, 2 * depth, &source, &arena, &root, &fault), WEIR_INVALID_DEFINITION);
        assert_non_null(strstr(fault.message, "nested deeper than 32 levels"));
        assert_null(root);
    }
    memset(text, '[', 32);
    memset(text + 32, ']', 32);
    text[64] = '\0';
    (void)read_fine(text);
}

static void the_number_of_values_is_bounded(void **state)
{
    (void)state;
    size_t length = 2 * (YAML_NODES_MAX + 10);
    char *text = malloc(length + 1);
    assert_non_null(text);
    for (size_t i = 1; i + 1 < length; i += 2) {
        memcpy(text + i, "1,", 2);
    }
    text[0] = '[';
    text[length - 1] = ']';
    const struct yaml_node *root = NULL;
    assert_int_equal(yaml_read(text, length, &source, &arena, &root, &fault), WEIR_INVALID_DEFINITION);
    assert_string_equal(fault.message, "file.yaml: more than 100000 values");
    free(text);
}

static void a_full_arena_is_out_of_memory(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 2000; bytes += 16) {
        struct arena small;
        arena_init(&small, bytes);
        const struct yaml_node *root = NULL;
        enum weir_status status = yaml_read("a: [b, {c: d}]", 14, &source, &small, &root, &fault);
        assert_true(status == WEIR_OUT_OF_MEMORY || (status == WEIR_OK && bytes > 500));
        arena_close(&small);
    }
}

static void an_unknown_key_gets_the_nearest_known_one(void **state)
{
    (void)state;
    static const char *const known[] = {"timeout", "retry"};
    const struct yaml_node *root = read_fine("retry: 1\ntimeuot: 2\n");
    assert_int_equal(yaml_check_keys(&source, root, "a step", known, 2, &fault), WEIR_INVALID_DEFINITION);
    assert_string_equal(fault.message, "file.yaml:2:1: unknown key \"timeuot\" in a step");
    assert_string_equal(fault.hint, "did you mean \"timeout\"?");
    assert_int_equal(yaml_check_keys(&source, read_fine("x: 1"), "a step", known, 2, &fault), WEIR_INVALID_DEFINITION);
    assert_string_equal(fault.hint, "known keys: timeout, retry");
    assert_int_equal(yaml_check_keys(&source, read_fine("[]"), "a step", known, 2, &fault), WEIR_INVALID_DEFINITION);
    assert_string_equal(fault.message, "file.yaml:1:1: a step must be a map, not list");
    assert_int_equal(yaml_check_keys(&source, read_fine("retry: 1"), "a step", known, 2, &fault), WEIR_OK);
}

static void a_place_inside_a_text_is_told_where_it_can_be(void **state)
{
    (void)state;
    const struct yaml_node *root = read_fine("a: é-x\nb: 'é-x'\nc: \"\\u00e9-x\"\nd: |\n  é-x\n");
    static const char *const places[] = {"file.yaml:1:6: x", "file.yaml:2:7: x", "file.yaml:3:4: x", "file.yaml:5:5: x"};
    for (size_t i = 0; i < 4; i++) {
        (void)yaml_error_inside(&source, root->values[i], 3, &fault, "x");
        assert_memory_equal(fault.message, places[i], strlen(places[i]));
    }
}

/* Everything wrong above once more, with stderr in a pipe. */
static void nothing_is_printed(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    int before = dup(STDERR_FILENO);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    what_is_not_one_plain_document_is_refused(state);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    (void)close(before);
    (void)close(fds[1]);
    char byte;
    assert_int_equal(read(fds[0], &byte, 1), 0);
    (void)close(fds[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_arena, close_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_scalar_of_many_pieces_is_whole),
        TEST(a_block_without_a_line_is_empty),
        TEST(plain_scalars_follow_the_core_schema),
        TEST(nodes_know_line_and_column),
        TEST(json_is_read_as_well),
        TEST(strict_json_gives_the_same_tree),
        TEST(what_is_not_one_plain_document_is_refused),
        TEST(a_duplicate_key_is_refused_where_it_stands),
        TEST(nesting_is_bounded),
        TEST(the_number_of_values_is_bounded),
        TEST(a_full_arena_is_out_of_memory),
        TEST(an_unknown_key_gets_the_nearest_known_one),
        TEST(a_place_inside_a_text_is_told_where_it_can_be),
        TEST(nothing_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
