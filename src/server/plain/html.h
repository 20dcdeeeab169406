/* Writes a page of HTML, in which no text of a user becomes markup.
 *
 * Markup is a constant of the program, and goes through html_markup() alone; everything else through the functions that
 * escape it. The first failure is kept, so that a page needs one check at its end. Threads: one at a time.
 */
#ifndef WEIR_SERVER_PLAIN_HTML_H
#define WEIR_SERVER_PLAIN_HTML_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"

struct html {
    struct text *to;
    bool is_failed; /* no memory, or the page is too long */
};

/* Of a value that is longer the page shows the beginning. */
enum { HTML_DATA_BYTES_MAX = 64 * 1024 };

/* A constant. */
void html_markup(struct html *html, const char *markup);
/* Escaped, for a content and for an attribute in double quotes. NULL: a dash. */
void html_text(struct html *html, const char *text);
void html_number(struct html *html, json_int_t number);
/* A value in the query or a segment of the path of an address. */
void html_url(struct html *html, const char *value);
/* A text member as a text, a number as a number, all else that there is as JSON. */
void html_member(struct html *html, const json_t *object, const char *key);
/* The same in a cell of a table. */
void html_cell(struct html *html, const json_t *object, const char *key);
/* A value as JSON of several lines. */
void html_data(struct html *html, const json_t *value);

#endif
