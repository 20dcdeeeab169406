/* Handlers in C as one of the programs that `./dev bench languages` compares. */
#ifndef WEIR_BENCH_PEERS_HANDLER_H
#define WEIR_BENCH_PEERS_HANDLER_H

/* The arguments VERB URL COUNT; returns the exit code. */
int handler_main(int argc, char **argv);

#endif
