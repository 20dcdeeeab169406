/* The verbs that the programs in bench/peers call: `weir_bench NOUN VERB URL COUNT`. One thread. */
#ifndef WEIR_BENCH_PEERS_VERBS_H
#define WEIR_BENCH_PEERS_VERBS_H

#include <stddef.h>

struct peer_verb {
    const char *name;
    void (*act)(const char *url, size_t count);
};

/* Calls the verb of `argv`: VERB URL COUNT. The exit code: 2, and the names of all verbs on stderr, when there is no such.
 */
int peer_verb_run(const char *noun, const struct peer_verb *verbs, size_t verb_count, int argc, char **argv);

#endif
