#include "server/request_target.h"

#include <stdio.h>

#include "support/test.h"

static struct arena arena;

static int open_arena(void **state)
{
    (void)state;
    arena_init(&arena, 1024 * 1024);
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    arena_close(&arena);
    return 0;
}

static struct request_target target_of(const char *text)
{
    struct request_target target;
    assert_null(request_target_read(text, &arena, &target));
    return target;
}

static void a_path_is_cut_before_it_is_decoded(void **state)
{
    (void)state;
    struct request_target target = target_of("/v1/workspaces/a%2Fb%20c/executions:batch");
    assert_int_equal(target.segment_count, 4);
    assert_string_equal(target.segments[0], "v1");
    assert_string_equal(target.segments[2], "a/b c");
    assert_string_equal(target.segments[3], "executions:batch");
    assert_int_equal(target_of("/").segment_count, 0);
    target = target_of("/v1//x/");
    assert_int_equal(target.segment_count, 4);
    assert_string_equal(target.segments[1], "");
    assert_string_equal(target.segments[3], "");
    assert_string_equal(target_of("/a+b").segments[0], "a+b");
    assert_string_equal(target_of("/v1/%2e%2E/etc").segments[1], "..");
}

static void a_query_has_names_and_values(void **state)
{
    (void)state;
    struct request_target target = target_of("/x?status=FAILED%2CCANCELLED&where=a%3Db+c&count&&empty=&eq=a=b");
    assert_int_equal(target.segment_count, 1);
    assert_int_equal(target.argument_count, 5);
    assert_string_equal(target.arguments[0].value, "FAILED,CANCELLED");
    assert_string_equal(target.arguments[1].value, "a=b c");
    assert_string_equal(target.arguments[2].name, "count");
    assert_string_equal(target.arguments[2].value, "");
    assert_string_equal(target.arguments[3].value, "");
    assert_string_equal(target.arguments[4].value, "a=b");
    assert_int_equal(target_of("/x?").argument_count, 0);
}

static void a_member_in_brackets_is_one_behind_a_dot(void **state)
{
    (void)state;
    struct request_target target = target_of("/x?label%5Btier%5D=gold&label[zone]=a&[x]=1&y[]=2&z[=3&label.team=core");
    static const char *const names[] = {"label.tier", "label.zone", "[x]", "y[]", "z[", "label.team"};
    assert_int_equal(target.argument_count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(target.arguments[i].name, names[i]);
    }
    assert_non_null(request_target_read("/x?label[tier]=gold&label.tier=tin", &arena, &target));
}

static void what_has_two_meanings_is_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {"",
                                          "*",
                                          "http://localhost/livez",
                                          "x",
                                          "/a#b",
                                          "/%",
                                          "/%4",
                                          "/%4g",
                                          "/%00",
                                          "/a?b=%00",
                                          "/%ff",
                                          "/%c0%af",
                                          "/a?b=%ed%a0%80",
                                          "/a?b=%1",
                                          "/a?x=1&x=1",
                                          "/a?%",
                                          "/1/2/3/4/5/6/7/8/9",
                                          "/1/2/3/4/5/6/7/8/"};
    struct request_target target;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_non_null(request_target_read(refused[i], &arena, &target));
    }
    char many[TARGET_ARGUMENTS_MAX * 8] = "/a?";
    for (size_t i = 0; i <= TARGET_ARGUMENTS_MAX; i++) {
        size_t used = strlen(many);
        (void)snprintf(many + used, sizeof many - used, "%sa%zu", i == 0 ? "" : "&", i);
    }
    assert_string_equal(request_target_read(many, &arena, &target), "the query has too many arguments");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_cut_before_it_is_decoded),
        cmocka_unit_test(a_query_has_names_and_values),
        cmocka_unit_test(a_member_in_brackets_is_one_behind_a_dot),
        cmocka_unit_test(what_has_two_meanings_is_refused),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
