#include "base/shell_quote.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A tilde or an equals sign at the beginning means something to some shells, and nothing at all is no word. */
static bool is_plain(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+=";
    return text[0] != '\0' && text[0] != '=' && strspn(text, plain) == strlen(text);
}

const char *shell_quote(const char *text, char to[SHELL_WORD_MAX])
{
    static const char quote[] = "'\\''"; /* closes the quotes, writes one, and opens them again */
    size_t used = 0;
    if (is_plain(text)) {
        return strlen(text) < SHELL_WORD_MAX ? text : "NAME";
    }
    to[used++] = '\'';
    for (; *text != '\0'; text++) {
        size_t length = *text == '\'' ? sizeof quote - 1 : 1;
        if (used + length + sizeof "'" > SHELL_WORD_MAX) {
            return "NAME";
        }
        memcpy(to + used, *text == '\'' ? quote : text, length);
        used += length;
    }
    to[used++] = '\'';
    to[used] = '\0';
    return to;
}
