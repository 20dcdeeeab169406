#include "cli/arguments/parse.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/test.h"

struct line {
    struct arena arena;
    struct invocation invocation;
    struct weir_error error;
    enum weir_status status;
};

/* Splits at blanks; "''" is an empty word. */
static void parse(struct line *line, const char *text)
{
    const char *words[64];
    size_t count = 0;
    memset(line, 0, sizeof *line);
    arena_init(&line->arena, 1024 * 1024);
    char *rest = NULL;
    char *copy = arena_copy_string(&line->arena, text);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        words[count++] = strcmp(word, "''") == 0 ? "" : word;
    }
    line->invocation.arena = &line->arena;
    const char **kept = arena_allocate(&line->arena, sizeof words);
    memcpy(kept, words, sizeof words);
    line->status = command_parse(&line->invocation, count, kept, &line->error);
}

static void refuses(const char *text, const char *message, const char *hint)
{
    struct line line;
    parse(&line, text);
    if (line.status != WEIR_INVALID_ARGUMENT || strstr(line.error.message, message) == NULL ||
        strstr(line.error.hint, hint) == NULL) {
        print_error("%s -> %s / %s\n", text, line.error.message, line.error.hint);
    }
    assert_int_equal(line.status, WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(line.error.message, message));
    assert_non_null(strstr(line.error.hint, hint));
    arena_close(&line.arena);
}

static void flags_may_stand_before_and_behind_the_verb(void **state)
{
    static const char *const lines[] = {"enqueue -w acme hello --priority 5", "-w acme --priority=5 enqueue hello",
                                        "--workspace acme enqueue --priority 5 hello", "enqueue hello -wacme --priority=5",
                                        "enqueue hello -w=acme --priority 5"};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct line line;
        parse(&line, lines[i]);
        assert_int_equal(line.status, WEIR_OK);
        assert_string_equal(line.invocation.command->name, "enqueue");
        assert_string_equal(invocation_text(&line.invocation, "workspace"), "acme");
        assert_int_equal(invocation_number(&line.invocation, "priority", 0), 5);
        assert_string_equal(invocation_argument(&line.invocation, 0), "hello");
        assert_null(invocation_argument(&line.invocation, 1));
        arena_close(&line.arena);
    }
}

static void two_dashes_end_the_flags_and_one_dash_is_an_argument(void **state)
{
    struct line line;
    (void)state;
    parse(&line, "enqueue -w acme -- --odd");
    assert_int_equal(line.status, WEIR_OK);
    assert_string_equal(invocation_argument(&line.invocation, 0), "--odd");
    arena_close(&line.arena);
    parse(&line, "enqueue -");
    assert_int_equal(line.status, WEIR_OK);
    assert_string_equal(invocation_argument(&line.invocation, 0), "-");
    arena_close(&line.arena);
}

static void letters_may_be_joined(void **state)
{
    struct line line;
    (void)state;
    parse(&line, "cancel -qyn ID");
    assert_int_equal(line.status, WEIR_OK);
    assert_true(invocation_has(&line.invocation, "quiet"));
    assert_true(invocation_has(&line.invocation, "yes"));
    assert_true(invocation_is_dry_run(&line.invocation));
    arena_close(&line.arena);
}

static void values_are_typed(void **state)
{
    struct line line;
    (void)state;
    parse(&line, "wait ID --timeout 1m30s");
    assert_int_equal(line.status, WEIR_OK);
    assert_int_equal(invocation_number(&line.invocation, "timeout", 0), 90 * MICROSECONDS_PER_SECOND);
    arena_close(&line.arena);
    parse(&line, "enqueue -w a b --priority -100 --run-at +10m");
    assert_int_equal(line.status, WEIR_OK);
    assert_int_equal(invocation_number(&line.invocation, "priority", 0), -100);
    assert_int_equal(invocation_time(&line.invocation, "run-at", 1000, 0), 1000 + 600 * MICROSECONDS_PER_SECOND);
    arena_close(&line.arena);
    refuses("enqueue -w a b --priority 101", "out of range", "-100 to 100");
    refuses("enqueue -w a b --priority 99999999999999999999", "out of range", "");
    refuses("enqueue -w a b --priority five", "not a whole number", "");
    refuses("enqueue -w a b --priority 5x", "not a whole number", "");
    refuses("enqueue -w a b --run-at tomorrow", "--run-at", "2026-11-21T10:00:00Z");
    refuses("list -o jsom", "not one of", "did you mean json?");
    refuses("wait ID --timeout 10", "--timeout", "");
    refuses("cancel ID --expect -1", "out of range", "at least 0");
}

static void a_misspelt_name_gets_a_suggestion(void **state)
{
    (void)state;
    refuses("enqeue x", "no command \"enqeue\"", "weir enqueue");
    refuses("ls", "no command \"ls\"", "weir list");
    refuses("result ID", "no command \"result\"", "weir show");
    refuses("events ID", "no command \"events\"", "weir show");
    refuses("usage acme", "no command \"usage\"", "weir workspace show");
    refuses("enqueue -w a b --delay 5s", "no flag --delay", "--run-at");
    refuses("schedule set s --time-zone UTC", "no flag --time-zone", "--zone");
    refuses("workflow aply f", "no verb \"aply\"", "weir workflow apply");
    refuses("wrkspace list", "no command", "workspace");
    refuses("tokn list", "no command", "token");
    refuses("hok list", "no command", "hook");
    refuses("list --stat failed", "no flag --stat", "--status");
    refuses("enqueue --priorty 3", "no flag --priorty", "--priority");
    refuses("show --limit 3 ID", "`weir show` has no flag --limit", "weir help show");
    refuses("-Z list", "no flag -Z", "");
    refuses("schedule create x", "no verb \"create\"", "weir schedule set");
    refuses("schedule ls", "no verb \"ls\"", "weir schedule list");
    refuses("schedule run x", "no verb \"run\"", "weir schedule trigger");
    refuses("schedule rm x", "no verb \"rm\"", "weir schedule delete");
    refuses("cron list", "no command \"cron\"", "weir schedule");
    refuses("webhook list", "no verb \"list\"", "weir hook list");
    refuses("webhook crete", "no verb \"crete\"", "weir help webhook");
    refuses("plan run x", "no verb \"run\"", "weir help plan");
    refuses("workflow lint f", "no verb \"lint\"", "`weir workflow apply --dry-run`");
    refuses("workflow check f", "no verb \"check\"", "`weir workflow apply --dry-run`");
    refuses("workflow publish f", "no verb \"publish\"", "`weir workflow apply`");
    refuses("lint f", "no command \"lint\"", "`weir workflow apply --dry-run`");
    refuses("lock print", "no verb \"print\"", "its verbs are: list | ");
    refuses("zzzzzzzz", "no command", "weir help");
}

static void missing_and_surplus_arguments_are_errors_with_the_usage(void **state)
{
    (void)state;
    refuses("wait", "needs ID", "usage: weir wait ID");
    refuses("show a b", "does not take \"b\"", "usage:");
    refuses("enqueue -w acme", "needs WORKFLOW", "usage: weir enqueue WORKFLOW");
    refuses("-q", "no command", "weir help");
    refuses("workflow", "needs a verb", "apply | list | show");
    refuses("list --limit", "needs a value", "--limit N");
    refuses("list --where --count", "needs a value", "--flag=VALUE");
    refuses("list -w", "-w needs a value", "NAME");
    refuses("purge -w ''", "-w is empty", "variable of the shell may be unset");
    refuses("list --where= x", "--where is empty", "");
    refuses("show ''", "empty", "");
    refuses("list --count=3", "takes no value", "");
}

static void a_flag_is_given_once(void **state)
{
    (void)state;
    refuses("list -w a -w b", "given twice", "once");
    refuses("list -w a --workspace=a", "given twice", "once");
    refuses("list --json -o jsonl", "contradict", "");
    struct line line;
    parse(&line, "list --json -o json");
    assert_int_equal(line.status, WEIR_OK);
    arena_close(&line.arena);
}

static void a_dry_run_of_a_node_is_refused(void **state)
{
    (void)state;
    refuses("serve --dry-run", "`weir serve` has no --dry-run", "");
}

static void help_is_found_at_any_place(void **state)
{
    static const char *const lines[] = {"enqueue -h", "--help enqueue", "enqueue --help --priority x", "enqueue a b c -h"};
    struct line line;
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        parse(&line, lines[i]);
        assert_int_equal(line.status, WEIR_OK);
        assert_true(line.invocation.wants_help);
        assert_string_equal(line.invocation.command->name, "enqueue");
        arena_close(&line.arena);
    }
    parse(&line, "workflow -h");
    assert_int_equal(line.status, WEIR_OK);
    assert_string_equal(line.invocation.noun, "workflow");
    arena_close(&line.arena);
    parse(&line, "-V");
    assert_int_equal(line.status, WEIR_OK);
    assert_true(line.invocation.wants_version);
    arena_close(&line.arena);
}

static void bytes_that_are_no_text_are_refused(void **state)
{
    const char *words[] = {"list", "-w", "caf\xe9"};
    struct arena arena;
    struct weir_error error;
    (void)state;
    arena_init(&arena, 65536);
    struct invocation invocation = {.arena = &arena};
    assert_int_equal(command_parse(&invocation, 3, words, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "not UTF-8"));
    arena_close(&arena);
}

static bool flags_agree(const struct flag *a, const struct flag *b)
{
    bool same_name = strcmp(a->name, b->name) == 0;
    bool same_letter = a->letter == b->letter;
    bool same_arity = (a->type == VALUE_NONE) == (b->type == VALUE_NONE);
    return same_name ? same_letter && same_arity : a->letter == 0 || !same_letter;
}

static void a_flag_means_the_same_in_every_command(void **state)
{
    const struct flag *flags[512];
    size_t count = 0;
    size_t commands;
    const struct command *all = command_table(&commands);
    (void)state;
    for (const struct flag *flag = command_global_flags(); flag->name != NULL; flag++) {
        flags[count++] = flag;
    }
    for (size_t c = 0; c < commands; c++) {
        for (size_t f = 0; f < COMMAND_FLAGS_MAX && all[c].flags[f].name != NULL; f++) {
            flags[count++] = &all[c].flags[f];
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (!flags_agree(flags[i], flags[j])) {
                print_error("--%s and --%s\n", flags[i]->name, flags[j]->name);
            }
            assert_true(flags_agree(flags[i], flags[j]));
        }
    }
}

static void examples_of_the_table_parse(void **state)
{
    size_t commands;
    const struct command *all = command_table(&commands);
    (void)state;
    for (size_t c = 0; c < commands; c++) {
        char example[1024];
        (void)snprintf(example, sizeof example, "%s", all[c].example);
        char *rest = NULL;
        for (char *text = strtok_r(example, "\n", &rest); text != NULL; text = strtok_r(NULL, "\n", &rest)) {
            struct line line;
            char *start = strstr(text, "weir ");
            assert_non_null(start);
            char *quote = strchr(start, '\'');
            char *end = strpbrk(start, "<>");
            for (char *at = quote; at != NULL && *at != '\0'; at++) { /* what stands in quotes is one word */
                *at = *at == ' ' ? '_' : *at;
                quote = *at == '\'' && at != quote ? NULL : quote;
                if (quote == NULL) {
                    break;
                }
            }
            if (end != NULL) {
                *end = '\0';
            }
            parse(&line, start + 5);
            if (line.status != WEIR_OK) {
                print_error("%s: %s\n", text, line.error.message);
            }
            assert_int_equal(line.status, WEIR_OK);
            assert_string_equal(line.invocation.command->name, all[c].name);
            arena_close(&line.arena);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_may_stand_before_and_behind_the_verb),
        cmocka_unit_test(two_dashes_end_the_flags_and_one_dash_is_an_argument),
        cmocka_unit_test(letters_may_be_joined),
        cmocka_unit_test(values_are_typed),
        cmocka_unit_test(a_misspelt_name_gets_a_suggestion),
        cmocka_unit_test(missing_and_surplus_arguments_are_errors_with_the_usage),
        cmocka_unit_test(a_flag_is_given_once),
        cmocka_unit_test(a_dry_run_of_a_node_is_refused),
        cmocka_unit_test(help_is_found_at_any_place),
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test(a_flag_means_the_same_in_every_command),
        cmocka_unit_test(examples_of_the_table_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
