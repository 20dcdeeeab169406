#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int peer_verb_run(const char *noun, const struct peer_verb *verbs, size_t verb_count, int argc, char **argv)
{
    char *end = NULL;
    size_t count = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
    for (size_t i = 0; i < verb_count && end != NULL && end != argv[2] && *end == '\0'; i++) {
        if (strcmp(argv[0], verbs[i].name) == 0) {
            verbs[i].act(argv[1], count);
            return 0;
        }
    }
    fprintf(stderr, "weir_bench: %s takes VERB URL COUNT; the verbs:", noun);
    for (size_t i = 0; i < verb_count; i++) {
        fprintf(stderr, " %s", verbs[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}
