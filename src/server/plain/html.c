/* How a text stays a text:
 *
 *   1. Five characters can end a text of HTML or an attribute in quotes. They are escaped, in both places alike.
 *   2. All attributes are in double quotes, so a blank or a `=` of a text begins no other attribute.
 *   3. No text of a user is the name of an element or of an attribute, a style, or the beginning of an address. In an
 * address it is percent-encoded, so `javascript:` cannot become its scheme.
 *   4. The charset is in the field Content-Type and in the head, so no browser guesses another one.
 *
 * The policy (CSP) of the page allows no script, if all of this were to fail. */
#include "server/plain/html.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static void keep(struct html *html, enum weir_status status)
{
    html->is_failed = html->is_failed || status != WEIR_OK;
}

void html_markup(struct html *html, const char *markup)
{
    INVARIANT(html != NULL && markup != NULL);
    if (!html->is_failed) {
        keep(html, text_add_string(html->to, markup));
    }
}

static const char *escape_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    default:
        return "&#39;";
    }
}

/* Runs without such a character are added as they are: most texts are one run. */
static void add_escaped(struct html *html, const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end && !html->is_failed) {
        size_t plain = strcspn(text, "&<>\"'");
        plain = plain < (size_t)(end - text) ? plain : (size_t)(end - text);
        keep(html, text_add(html->to, text, plain));
        text += plain;
        if (text < end) {
            html_markup(html, escape_of(*text));
            text++;
        }
    }
}

void html_text(struct html *html, const char *text)
{
    INVARIANT(html != NULL);
    if (text == NULL) {
        html_markup(html, "–");
    } else {
        add_escaped(html, text, strlen(text));
    }
}

/* Of a counter, or of a member that the store has as a number. */
void html_number(struct html *html, json_int_t number)
{
    if (!html->is_failed) {
        keep(html, text_format(html->to, "%lld", (long long)number));
    }
}

void html_url(struct html *html, const char *value)
{
    if (!html->is_failed) {
        keep(html, text_add_url_value(html->to, value, strlen(value)));
    }
}

/* The cut is before a byte that begins a character. */
void html_data(struct html *html, const json_t *value)
{
    char *dump = value == NULL ? NULL : json_make_text(value, JSON_INDENT(2));
    if (value != NULL && dump == NULL) {
        html->is_failed = true;
    }
    size_t length = dump == NULL ? 0 : strlen(dump);
    size_t shown = length < HTML_DATA_BYTES_MAX ? length : HTML_DATA_BYTES_MAX;
    while (shown < length && ((unsigned char)dump[shown] & 0xC0) == 0x80) {
        shown--;
    }
    if (dump == NULL) {
        html_text(html, NULL);
    } else {
        add_escaped(html, dump, shown);
        html_markup(html, shown < length ? "\n… (the rest is in the answer of the API)" : "");
    }
    free(dump);
}

/* The types of a member may differ between rows: a result is any value, and a label is a text. */
void html_member(struct html *html, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value)) {
        html_text(html, NULL);
    } else if (json_is_string(value)) {
        html_text(html, json_string_value(value));
    } else {
        html_data(html, value);
    }
}

void html_cell(struct html *html, const json_t *object, const char *key)
{
    html_markup(html, "<td>");
    html_member(html, object, key);
    html_markup(html, "</td>");
}
