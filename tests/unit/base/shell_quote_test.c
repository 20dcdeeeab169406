#include "base/shell_quote.h"

#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static void a_text_of_plain_characters_is_not_quoted(void **state)
{
    (void)state;
    static const char *const plain[] = {"acme", "web-1", "a.b_c", "/tmp/weir.db", "sqlite:./weir.db", "50%", "a=b,c@d+e"};
    char word[SHELL_WORD_MAX];
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        assert_ptr_equal(shell_quote(plain[i], word), plain[i]);
    }
}

/* The output of `sh -c`. */
static void ask_shell(char *command, char *answer, size_t size)
{
    char *arguments[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int ends[2];
    int status = 0;
    size_t length = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawnp(&pid, "sh", &actions, NULL, arguments, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    while ((got = read(ends[0], answer + length, size - 1 - length)) > 0) {
        length += (size_t)got;
    }
    answer[length] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The shell itself prints how it reads the argument. */
static void a_shell_reads_every_text_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    "a b",           "it's", "''",    "$HOME", "`id`", "a\\b", "\"x\"", "~root",
                                        "=ls", "a;b&c|d",       "*",    "#x",    "!x",    "(a)",  "a\nb", "<>",    "{a,b}",
                                        "\t",  "M\xc3\xbcller", "-n",   "a'b'c", "[a]",   "?"};
    char word[SHELL_WORD_MAX];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char command[2 * SHELL_WORD_MAX];
        char read_back[64] = "";
        (void)snprintf(command, sizeof command, "cd / && printf %%s. %s", shell_quote(texts[i], word));
        ask_shell(command, read_back, sizeof read_back);
        char *end = strrchr(read_back, '.');
        assert_non_null(end);
        assert_string_equal(end, ".");
        *end = '\0';
        assert_string_equal(read_back, texts[i]);
    }
}

static void a_text_that_does_not_fit_is_not_cut(void **state)
{
    (void)state;
    static char text[2 * SHELL_WORD_MAX];
    char word[SHELL_WORD_MAX];
    for (size_t length = 1; length < sizeof text - 1; length++) {
        memset(text, 'a', length);
        text[length] = '\0';
        assert_int_equal(strlen(shell_quote(text, word)), length < SHELL_WORD_MAX ? length : strlen("NAME"));
        text[0] = ' ';
        const char *answer = shell_quote(text, word);
        if (length + 3 > SHELL_WORD_MAX) {
            assert_string_equal(answer, "NAME");
        } else {
            assert_int_equal(strlen(answer), length + 2);
        }
    }
    memset(text, '\'', SHELL_WORD_MAX / 4);
    text[SHELL_WORD_MAX / 4] = '\0';
    assert_string_equal(shell_quote(text, word), "NAME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_of_plain_characters_is_not_quoted),
        cmocka_unit_test(a_shell_reads_every_text_back),
        cmocka_unit_test(a_text_that_does_not_fit_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
