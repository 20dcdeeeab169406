/* One argument as a shell reads it, for commands in hints. Pure; any thread; the caller gives the buffer.
 *
 * A text of harmless characters stays as it is, any other one is put in single quotes. A text that does not fit becomes
 * NAME, because a cut name would be a wrong command. An empty text, or one with '=' in front, is quoted: a shell would drop
 * or interpret it.
 */
#include "base/shell_quote.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool needs_no_quotes(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+=";
    return text[0] != '\0' && text[0] != '=' && strspn(text, plain) == strlen(text);
}

const char *shell_quote(const char *text, char to[SHELL_WORD_MAX])
{
    static const char quote[] = "'\\''"; /* closes the quotes, writes one, and opens them again */
    size_t used = 0;
    if (needs_no_quotes(text)) {
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
