/* The texts of the setting become a part of a field of the answer. So each is checked letter by letter: a semicolon would
 * begin another rule of the policy, and a star would open the box to more sites than its author sees. */
#include "server/embed_policy.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static const char policy_begin[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors";

/* A scheme, a host, and perhaps a port. A host has letters of names alone, and figures in brackets (IPv6). */
static bool is_origin(const char *text, size_t length)
{
    static const char *const schemes[] = {"https://", "http://"};
    size_t begun = 0;
    for (size_t i = 0; i < 2 && begun == 0; i++) {
        begun = strncmp(text, schemes[i], strlen(schemes[i])) == 0 ? strlen(schemes[i]) : 0;
    }
    size_t host = begun > 0 ? strspn(text + begun, "abcdefghijklmnopqrstuvwxyz0123456789.-[:]") : 0;
    return host > 0 && begun + host == length && length < EMBED_ORIGIN_BYTES_MAX;
}

enum weir_status embed_policy_read(const char *origins, char *ret_policy, size_t size, struct weir_error *error)
{
    INVARIANT(origins != NULL && ret_policy != NULL && size >= EMBED_POLICY_BYTES_MAX);
    static const char between[] = ", ";
    size_t count = 0;
    ret_policy[0] = '\0';
    for (const char *at = origins + strspn(origins, between); *at != '\0';) {
        size_t length = strcspn(at, between);
        if (!is_origin(at, length)) {
            error_set(error, WEIR_INVALID_ARGUMENT, "http.embed_origins has \"%.*s\", which is no origin",
                      (int)(length < EMBED_ORIGIN_BYTES_MAX ? length : EMBED_ORIGIN_BYTES_MAX), at);
            error_hint(error, "write https://app.example.com, in small letters and without a path; several with commas");
            return WEIR_INVALID_ARGUMENT;
        }
        if (++count > EMBED_ORIGINS_MOST) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "http.embed_origins has more than %d origins",
                             EMBED_ORIGINS_MOST);
        }
        if (count == 1) {
            text_copy(ret_policy, size, policy_begin);
        }
        size_t used = strlen(ret_policy);
        (void)snprintf(ret_policy + used, size - used, " %.*s", (int)length, at);
        at += length;
        at += strspn(at, between);
    }
    return WEIR_OK;
}
