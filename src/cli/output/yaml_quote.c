/* A text as one scalar of a YAML file that reads back as the same text.
 *
 * A text stays as it is when it begins like a name or a path and holds only characters without a meaning in YAML. Every
 * other text gets double quotes, with escapes for quotes, backslashes and characters that a terminal must not get. Texts
 * that YAML reads as a boolean or as null are quoted, too. Pure.
 */
#include "cli/output/yaml_quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { ESCAPED_BYTES_MAX = 10, UTF8_BYTES_MAX = 4, REPLACEMENT = 0xfffd };

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Only a text that begins like a name or a path is plain: digits would be numbers, and signs have meanings. */
static bool is_plain_scalar(const char *text)
{
    static const char *const other_values[] = {"null",  "Null",  "NULL", "true", "True", "TRUE", "false",
                                               "False", "FALSE", "yes",  "no",   "on",   "off"};
    static const char marks[] = "0123456789_./@+-=?%~";
    if (!is_letter(text[0]) && text[0] != '/' && strncmp(text, "./", 2) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof other_values / sizeof other_values[0]; i++) {
        if (strcmp(other_values[i], text) == 0) {
            return false;
        }
    }
    for (const char *c = text; *c != '\0'; c++) {
        bool is_colon_inside = *c == ':' && c[1] != '\0'; /* blanks, behind which it would end a key, are quoted anyway */
        if (!is_letter(*c) && strchr(marks, *c) == NULL && !is_colon_inside) {
            return false;
        }
    }
    return true;
}

/* The bytes of the character at `text`, and which it is; one byte and REPLACEMENT when it is no UTF-8. */
static size_t read_yaml_character(const char *text, unsigned *ret_character)
{
    unsigned char lead = (unsigned char)text[0];
    size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    *ret_character = REPLACEMENT;
    if (strnlen(text, length) < length || !text_is_utf8(text, length)) {
        return 1;
    }
    unsigned character = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        character = character << 6 | ((unsigned char)text[i] & 0x3fU);
    }
    *ret_character = character;
    return length;
}

static bool is_printable(const char *text, size_t length)
{
    char copy[UTF8_BYTES_MAX + 1] = "";
    memcpy(copy, text, length);
    text_make_safe(copy);
    return memcmp(copy, text, length) == 0;
}

const char *yaml_quote(struct arena *arena, const char *text)
{
    if (is_plain_scalar(text)) {
        return text;
    }
    char *quoted = arena_allocate(arena, strlen(text) * ESCAPED_BYTES_MAX + sizeof "\"\"");
    if (quoted == NULL) {
        return "\"\"";
    }
    char *to = quoted;
    *to++ = '"';
    while (*text != '\0') {
        unsigned character = 0;
        size_t length = read_yaml_character(text, &character);
        if (character == '"' || character == '\\') {
            *to++ = '\\';
            *to++ = *text;
        } else if (character != REPLACEMENT && is_printable(text, length)) {
            memcpy(to, text, length);
            to += length;
        } else {
            to += snprintf(to, ESCAPED_BYTES_MAX + 1, character > 0xffff ? "\\U%08x" : "\\u%04x", character);
        }
        text += length;
    }
    *to++ = '"';
    *to = '\0';
    return quoted;
}
