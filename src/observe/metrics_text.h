/* Lines of the Prometheus text format. The first failure is kept and ends everything after it. */
#ifndef WEIR_OBSERVE_METRICS_TEXT_H
#define WEIR_OBSERVE_METRICS_TEXT_H

#include "base/text.h"
#include "weir/status.h"

struct metrics_text {
    struct text *to;
    enum weir_status status; /* WEIR_OK while everything fitted */
};

struct metrics_label {
    const char *name;
    const char *value;
};

/* "# HELP" and "# TYPE"; type is counter, gauge, histogram or untyped. */
void metrics_text_head(struct metrics_text *text, const char *name, const char *type, const char *help);
/* One sample; `label` NULL = none. The value of a label is escaped, and bytes that are no UTF-8 become '?'. */
void metrics_text_sample(struct metrics_text *text, const char *name, const char *label, const char *label_value,
                         double value);
/* The same with `count` labels. */
void metrics_text_labelled(struct metrics_text *text, const char *name, const struct metrics_label *labels, size_t count,
                           double value);

#endif
