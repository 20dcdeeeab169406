/* URLs of stores: the form that may be shown, and texts that are not URLs.
 *
 * A password may stand in the user part, in the query, or in a keyword text of libpq. The form that may be shown masks all
 * of them, also when the URL is wrong, because a wrong URL is the one that an error message shows. It masks too much rather
 * than too little: a key with a % in it counts as a secret. A text that looks like a URL without its colon is never taken
 * as the path of a file, because the file would have a password as its name. Runs in any thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/store.h"

enum { STORE_URL_MAX = 1024 };

/* Puts "***" in place of the text between two places of `to`. */
static void mask(char *to, size_t size, size_t from, size_t until)
{
    char rest[STORE_URL_MAX];
    text_copy(rest, sizeof rest, to + until);
    (void)snprintf(to + from, size - from, "***%s", rest);
}

/* The last @ before the query ends the password; one behind it does when the password has a ? in it. */
static void mask_user(char *shown, size_t size)
{
    const char *slashes = strstr(shown, "://");
    size_t begin = slashes == NULL ? 0 : (size_t)(slashes + 3 - shown);
    size_t end = begin + strcspn(shown + begin, "?");
    size_t colon = begin + strcspn(shown + begin, ":");
    end = memrchr(shown + begin, '@', end - begin) == NULL ? strlen(shown) : end;
    while (end > begin && shown[end] != '@') {
        end--;
    }
    if (colon < end) {
        mask(shown, size, colon + 1, end);
    }
}

/* password= and sslpassword=, and each key that hides its letters behind a %, which libpq decodes. */
static bool is_secret(const char *key, size_t length)
{
    static const char word[] = "password";
    size_t letters = sizeof word - 1;
    return memchr(key, '%', length) != NULL || (length >= letters && strncmp(key + length - letters, word, letters) == 0);
}

/* Masks the values of secret keys in the query. */
static void mask_values(char *shown, size_t size)
{
    size_t at = 0;
    while (shown[at] != '\0') {
        size_t key = at;
        at += strcspn(shown + at, "=& ?");
        if (shown[at] == '=' && is_secret(shown + key, at - key)) {
            mask(shown, size, at + 1, at + 1 + strcspn(shown + at + 1, "& "));
        }
        at += shown[at] != '\0';
    }
}

void store_url_shown(const char *url, char *to, size_t size)
{
    INVARIANT(url != NULL && to != NULL && size > 0);
    char shown[STORE_URL_MAX];
    if (store_url_is_no_path(url)) {
        text_copy(to, size, strchr(url, '=') != NULL || strchr(url, '@') != NULL ? "***" : url);
        return;
    }
    text_copy(shown, sizeof shown, url);
    if (strncmp(shown, "sqlite:", strlen("sqlite:")) != 0) {
        mask_user(shown, sizeof shown);
    }
    mask_values(shown, sizeof shown);
    text_copy(to, size, shown);
}

/* Whether the text is the keyword form of libpq. */
static bool has_keyword(const char *url)
{
    static const char *const keywords[] = {"host=", "hostaddr=", "port=", "dbname=", "user=", "password=", "service="};
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        const char *at = strstr(url, keywords[i]);
        if (at != NULL && (at == url || at[-1] == ' ')) {
            return true;
        }
    }
    return false;
}

/* Whether it begins with a scheme and two slashes without the colon between them. */
static bool lacks_colon(const char *url)
{
    static const char *const beginnings[] = {"postgres//", "postgresql//", "http//", "https//", "sqlite//"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (strncmp(url, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool store_url_is_no_path(const char *url)
{
    const char *colon = strchr(url, ':');
    bool has_scheme = colon != NULL && colon > url && memchr(url, '/', (size_t)(colon - url)) == NULL;
    if (strcmp(url, ":memory:") == 0 || strncmp(url, "file:", strlen("file:")) == 0) {
        return true;
    }
    return !has_scheme && (has_keyword(url) || lacks_colon(url) || (colon != NULL && strchr(colon, '@') != NULL));
}
