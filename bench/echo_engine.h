/* An engine that does nothing: every start is answered, from a thread of its own, by "started" and by the end with one
 * finished step. With it a node shows the cost of store and dispatcher by themselves. */
#ifndef WEIR_BENCH_ECHO_ENGINE_H
#define WEIR_BENCH_ECHO_ENGINE_H

#include "engine/engine.h"

/* Room for `most` executions at once. Closed by engine_close(). */
struct engine *echo_engine_open(size_t most);

#endif
