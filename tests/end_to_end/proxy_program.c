/* The proxy of tests/support/proxy.h as a process, for tests that are not in C.
 *
 * usage: proxy_program SERVER_PORT
 *
 * Prints the port that it listens on, then does what each line of its stdin says, and prints the word when it is done:
 * passes, swallows, swallows_answers, cut. Ends with its stdin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/proxy.h"

static int obey(struct proxy *proxy, const char *word)
{
    if (strcmp(word, "passes") == 0) {
        proxy_set_mode(proxy, PROXY_PASSES);
    } else if (strcmp(word, "swallows") == 0) {
        proxy_set_mode(proxy, PROXY_SWALLOWS);
    } else if (strcmp(word, "swallows_answers") == 0) {
        proxy_set_mode(proxy, PROXY_SWALLOWS_ANSWERS);
    } else if (strcmp(word, "cut") == 0) {
        proxy_cut(proxy);
    } else {
        (void)fprintf(stderr, "proxy_program: it does not know \"%s\"\n", word);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char line[64];
    int answer = 0;
    if (argc != 2) {
        (void)fputs("usage: proxy_program SERVER_PORT\n", stderr);
        return 2;
    }
    struct proxy *proxy = proxy_open((int)strtol(argv[1], NULL, 10));
    printf("%d\n", proxy_port(proxy));
    while (answer == 0 && fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        answer = obey(proxy, line);
        (void)puts(line);
    }
    proxy_close(proxy);
    return answer == 0 ? 0 : 1;
}
