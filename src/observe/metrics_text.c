/* Writes lines of the Prometheus text format 0.0.4 into a bounded text.
 *
 * The first failure is kept in the struct, and every later call does nothing: the caller checks it once, at the end. Values
 * of labels are escaped, so no workspace's name can end a line or a label. Any thread, one text each.
 */
#include "observe/metrics_text.h"

#include <math.h>
#include <string.h>

#include "queue/limits.h"

void metrics_text_head(struct metrics_text *text, const char *name, const char *type, const char *help)
{
    if (text->status == WEIR_OK) {
        text->status = text_format(text->to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    }
}

/* Backslash, quote and newline are escaped (the format's rule); text_make_safe() has replaced newlines before. */
static void add_label(struct metrics_text *text, const struct metrics_label *label)
{
    char safe[WORKSPACE_NAME_MAX * 2 + 1];
    text_copy(safe, sizeof safe, label->value);
    text_make_safe(safe);
    text->status = text_format(text->to, "%s=\"", label->name);
    for (const char *at = safe; *at != '\0' && text->status == WEIR_OK; at++) {
        if (*at == '"' || *at == '\\') {
            text->status = text_add(text->to, "\\", 1);
        }
        if (text->status == WEIR_OK) {
            text->status = text_add(text->to, at, 1);
        }
    }
    if (text->status == WEIR_OK) {
        text->status = text_add_string(text->to, "\"");
    }
}

void metrics_text_labelled(struct metrics_text *text, const char *name, const struct metrics_label *labels, size_t count,
                           double value)
{
    if (text->status == WEIR_OK) {
        text->status = text_add_string(text->to, name);
    }
    for (size_t i = 0; i < count && text->status == WEIR_OK; i++) {
        text->status = text_add_string(text->to, i == 0 ? "{" : ",");
        if (text->status == WEIR_OK) {
            add_label(text, &labels[i]);
        }
    }
    if (text->status == WEIR_OK && count > 0) {
        text->status = text_add_string(text->to, "}");
    }
    if (text->status == WEIR_OK) {
        bool is_whole = fabs(value) < 1e15 && floor(value) == value;
        text->status = text_format(text->to, is_whole ? " %.0f\n" : " %.9g\n", value);
    }
}

void metrics_text_sample(struct metrics_text *text, const char *name, const char *label, const char *label_value,
                         double value)
{
    struct metrics_label own = {label, label_value};
    metrics_text_labelled(text, name, &own, label == NULL ? 0 : 1, value);
}
