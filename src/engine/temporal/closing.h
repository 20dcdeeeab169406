/* The end of a run: the close event is read, confirmed, decoded and reported (closing.c). The engine's loop owns it. */
#ifndef WEIR_ENGINE_TEMPORAL_CLOSING_H
#define WEIR_ENGINE_TEMPORAL_CLOSING_H

#include "engine/temporal/run_table.h"

/* Requests the close event of run->run_id. */
void closing_read_event(struct temporal *engine, struct run *run);
/* A close event has come, by a long poll or by closing_read_event(). Takes the contents of `closing`. */
void closing_take_event(struct temporal *engine, struct run *run, struct close_event *closing);
/* The service no longer has a workflow that did run: reports a failure. */
void closing_report_gone(struct temporal *engine, struct run *run);
/* The description after a termination shows no newer run: reports run->closing. */
void closing_report_confirmed(struct temporal *engine, struct run *run);
/* Reports run->closing. `problem`: the reason why it is still encoded; NULL = it is decoded. */
void closing_report_decoded(struct temporal *engine, struct run *run, const char *problem);
/* The store has recorded the reported end, or refused it with `status`. */
void closing_handle_recorded(struct temporal *engine, struct run *run, enum weir_status status);

#endif
