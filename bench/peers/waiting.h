/* weir as one of the programs that `./dev bench waiting` compares: see README.md. */
#ifndef WEIR_BENCH_PEERS_WAITING_H
#define WEIR_BENCH_PEERS_WAITING_H

/* `weir_bench waiting VERB URL COUNT`: `argv` begins with VERB. Returns the exit code. */
int waiting_main(int argc, char **argv);

#endif
