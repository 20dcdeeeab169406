/* weir as one of the queues that `./dev bench peers` compares (README.md of this folder has the contract of the verbs). */
#ifndef WEIR_BENCH_PEERS_WEIR_H
#define WEIR_BENCH_PEERS_WEIR_H

/* The arguments after `weir_bench peer`: VERB URL COUNT. Prints the verb's line of JSON; returns the exit code. */
int peer_main(int argc, char **argv);

#endif
