/* Preloaded into a node: answers for the names that the file WEIR_STUB_HOSTS lists, in the form of /etc/hosts turned round:
 * "NAME ADDRESS...". Each lookup takes the first line of its name out of the file while the name has a further line, so a
 * name may mean another address at each lookup. Numbers and localhost go to the C library; no other name has an address. */
#include <dlfcn.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINES_MAX = 64, LINE_BYTES = 256 };

typedef int lookup(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found);

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                                                       struct addrinfo **found);

/* The addresses of the next answer, in `line`; false: the file does not have the name. */
static bool take_answer(const char *node, char *line)
{
    char lines[LINES_MAX][LINE_BYTES];
    const char *path = getenv("WEIR_STUB_HOSTS");
    FILE *file = path == NULL || node == NULL ? NULL : fopen(path, "r+e");
    size_t length = node == NULL ? 0 : strlen(node);
    int count = 0;
    int first = -1;
    int named = 0;
    while (file != NULL && count < LINES_MAX && fgets(lines[count], LINE_BYTES, file) != NULL) {
        if (strncmp(lines[count], node, length) == 0 && lines[count][length] == ' ') {
            first = first < 0 ? count : first;
            named++;
        }
        count++;
    }
    if (first >= 0) {
        (void)snprintf(line, LINE_BYTES, "%s", lines[first] + length + 1);
    }
    if (named > 1) {
        file = freopen(path, "we", file);
        for (int i = 0; file != NULL && i < count; i++) {
            if (i != first) {
                (void)fputs(lines[i], file);
            }
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return first >= 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    char line[LINE_BYTES];
    char *rest = NULL;
    struct addrinfo **end = found;
    int code = EAI_NONAME;
    lookup *real;
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &symbol, sizeof real);
    if (!take_answer(node, line)) {
        struct addrinfo numeric = hints == NULL ? (struct addrinfo){.ai_flags = 0} : *hints;
        bool is_local = node == NULL || strcasecmp(node, "localhost") == 0;
        numeric.ai_flags |= is_local ? 0 : AI_NUMERICHOST;
        return real(node, service, &numeric, found);
    }
    *found = NULL;
    for (char *word = strtok_r(line, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        if (real(word, service, hints, end) == 0) { /* the C library frees a list entry by entry */
            code = 0;
            while (*end != NULL) {
                end = &(*end)->ai_next;
            }
        }
    }
    return code;
}
