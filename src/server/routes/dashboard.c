/* The dashboard: one page for all of its views, and the files that it loads.
 *
 * The page holds no data: it reads all that it shows from /v1, with the rights of its user, so it is open to everybody.
 *
 * 1. A browser asks for text/html and gets the page. All other clients get the 404 that any unknown path has.
 * 2. All addresses in the page are relative, and the view is in the fragment. No part of it depends on the prefix under
 *    which a proxy shows the node.
 * 3. The version of the files is a part of their addresses, and they may be kept for ever. The page is asked for again
 *    each time; its tag is the version.
 * 4. While nodes of two versions answer behind one address, a page may ask for the files of the other version. It gets
 *    those of this one, and nobody may keep them. */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "server/dashboard_file.h"
#include "server/entity_tag.h"
#include "server/routes/routes.h"

#include "dashboard_files.h"

/* No script, style or address but those of this node; no text becomes a script in any way. */
#define POLICY_OF_DASHBOARD                                                                                                \
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self';"        \
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "     \
    "'none'"

#define PAGE "index.html"
#define BOX "embed.html"

const char *dashboard_version(void)
{
    return DASHBOARD_VERSION;
}

static const struct dashboard_file *dashboard_find_file(const char *name)
{
    const struct dashboard_file *found = NULL;
    for (size_t i = 0; i < sizeof dashboard_files / sizeof dashboard_files[0]; i++) {
        if (strcmp(dashboard_files[i].name, name) == 0) {
            found = &dashboard_files[i];
        }
    }
    return found;
}

/* Whether one element of a list of weighted names, `length` bytes, is this name with a weight above 0 (RFC 9110, 12.4.2):
 * "gzip", "GZIP ; q=0.5". A weight of 0 refuses the name. */
static bool element_takes(const char *element, size_t length, const char *name)
{
    static const char blanks[] = " \t";
    char text[64];
    if (length >= sizeof text) {
        return false;
    }
    memcpy(text, element, length);
    text[length] = '\0';
    char *start = text + strspn(text, blanks);
    char *weight = strchr(start, ';');
    size_t named = strcspn(start, " \t;");
    if (named != strlen(name) || strncasecmp(start, name, named) != 0) {
        return false;
    }
    if (weight == NULL) {
        return true;
    }
    weight += 1 + strspn(weight + 1, blanks);
    bool is_weight = (weight[0] == 'q' || weight[0] == 'Q') && weight[1] == '=';
    return !is_weight || strpbrk(weight + 2, "123456789") != NULL;
}

static bool takes_gzip(const struct http_request *request)
{
    const char *at = request->fields[FIELD_ACCEPT_ENCODING];
    bool takes = false;
    while (at != NULL && *at != '\0' && !takes) {
        size_t length = strcspn(at, ",");
        takes = element_takes(at, length, "gzip");
        at += length + (at[length] == ',' ? 1 : 0);
    }
    return takes;
}

static void respond_file(const struct http_request *request, struct http_answer *answer, const struct dashboard_file *file,
                         const char *keeping)
{
    bool is_packed = file->packed != NULL && takes_gzip(request);
    answer->status = 200;
    answer->type = file->type;
    answer->policy = POLICY_OF_DASHBOARD;
    answer->keeping = keeping;
    answer->encoding = is_packed ? "gzip" : NULL;
    answer->constant = is_packed ? file->packed : file->plain;
    answer->constant_length = is_packed ? file->packed_length : file->plain_length;
}

void answer_dashboard_page(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    const char *accept = request->fields[FIELD_ACCEPT];
    const char *known = request->fields[FIELD_IF_NONE_MATCH];
    const struct dashboard_file *page = dashboard_find_file(PAGE);
    INVARIANT(page != NULL);
    if (!api->has_dashboard || accept == NULL || strstr(accept, "text/html") == NULL) {
        respond_no_path(request, answer);
        return;
    }
    /* Two encodings have two tags: a cache must not take the one for the other (RFC 9110, 8.8.3.3). */
    bool is_packed = page->packed != NULL && takes_gzip(request);
    answer->etag = is_packed ? "\"" DASHBOARD_VERSION "-gzip\"" : "\"" DASHBOARD_VERSION "\"";
    if (known != NULL && entity_tag_is_in(known, answer->etag)) {
        answer->status = 304;
        answer->policy = POLICY_OF_DASHBOARD; /* a browser replaces the one that it has kept */
        answer->keeping = "no-cache";
    } else {
        respond_file(request, answer, page, "no-cache");
    }
}

/* The page is at / alone: its relative addresses are right only there. */
void answer_dashboard_asset(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    const struct dashboard_file *file = dashboard_find_file(request_value(request, "file"));
    bool is_page = file != NULL && (strcmp(file->name, PAGE) == 0 || strcmp(file->name, BOX) == 0);
    bool is_this_version = strcmp(request_value(request, "version"), DASHBOARD_VERSION) == 0;
    if (!api->has_dashboard || file == NULL || is_page) {
        respond_no_path(request, answer);
    } else {
        respond_file(request, answer, file, is_this_version ? "public, max-age=31536000, immutable" : NULL);
    }
}

/* The page is the same for each workspace: its script reads the name from the address, and the token from the fragment,
 * which no server sees. No cookie has a part in it. The policy changes with the setting, so the page has no tag. */
void answer_embedded_box(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    if (!api->has_dashboard) {
        respond_no_path(request, answer);
    } else if (api->embed_policy[0] == '\0') {
        respond_problem(request, answer, 403, "not_permitted",
                        "no site may show this box: the setting http.embed_origins names none",
                        "http.embed_origins: https://app.example.com", NULL);
    } else {
        respond_file(request, answer, dashboard_find_file(BOX), "no-cache");
        answer->policy = api->embed_policy;
    }
}
