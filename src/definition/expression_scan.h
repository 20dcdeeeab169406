/* Private to expression.c and expression_references.c: scanning the text of a jq program without parsing it.
 * It finds strings, brackets and the parts of paths. Pure; any thread. No other file includes this.
 */
#ifndef WEIR_DEFINITION_EXPRESSION_SCAN_H
#define WEIR_DEFINITION_EXPRESSION_SCAN_H

#include "definition/expression.h"

/* Which brackets and strings are open. A '"' on the stack is a string; a ')' on top of it is an interpolation "\( ... )".
 * Begins as all zero. */
struct scanner {
    char closers[EXPRESSION_NESTING_MAX];
    size_t depth;
};

enum scan_result { SCAN_ON, SCAN_END, SCAN_MISMATCH, SCAN_TOO_DEEP };

bool scanner_is_in_string(const struct scanner *scanner);
/* Takes the next one or two bytes at text[*at] (or a comment to the end of its line). SCAN_END at the bracket that
 * closes the expression, which is not taken. */
enum scan_result scanner_step(struct scanner *scanner, const char *text, size_t length, size_t *at);

bool scan_is_space(char c);
bool scan_is_in_identifier(char c);
/* The length of the identifier that `text` begins with, or 0. */
size_t scan_identifier(const char *text, size_t length);
/* `["key"]`, `[0]` or `[-12]` at text[0], which is a '['; and `.key` or `."key"` at text[0], which is a '.'. They fill
 * `step`, whose key lies in `text`, and give the length, or 0 when it is something else. */
size_t scan_bracket(const char *text, size_t length, struct path_step *step);
size_t scan_dot(const char *text, size_t length, struct path_step *step);

#endif
