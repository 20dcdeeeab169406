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

/* A field with "gzip;q=0", which refuses it, is not sent by any browser. */
static bool takes_gzip(const struct http_request *request)
{
    const char *encodings = request->fields[FIELD_ACCEPT_ENCODING];
    return encodings != NULL && strstr(encodings, "gzip") != NULL && strstr(encodings, "gzip;q=0") == NULL;
}

static void respond_file(const struct http_request *request, struct http_answer *answer, const struct dashboard_file *file,
                         const char *keeping)
{
    bool is_packed = file->packed != NULL && takes_gzip(request);
    const unsigned char *bytes = is_packed ? file->packed : file->plain;
    answer->status = 200;
    answer->type = file->type;
    answer->policy = POLICY_OF_DASHBOARD;
    answer->keeping = keeping;
    answer->encoding = is_packed ? "gzip" : NULL;
    if (text_add(&answer->body, (const char *)bytes, is_packed ? file->packed_length : file->plain_length) != WEIR_OK) {
        respond_problem(request, answer, 503, "out_of_memory", "there is no memory for the page", NULL, NULL);
    }
}

static void refuse_path(const struct http_request *request, struct http_answer *answer)
{
    respond_problem(request, answer, 404, "not_found", "there is nothing at this path", NULL, NULL);
}

void answer_dashboard_page(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    const char *accept = request->fields[FIELD_ACCEPT];
    const char *known = request->fields[FIELD_IF_NONE_MATCH];
    const struct dashboard_file *page = dashboard_find_file("index.html");
    INVARIANT(page != NULL);
    if (!api->has_dashboard || accept == NULL || strstr(accept, "text/html") == NULL) {
        refuse_path(request, answer);
        return;
    }
    answer->etag = "\"" DASHBOARD_VERSION "\"";
    if (known != NULL && entity_tag_is_in(known, answer->etag)) {
        answer->status = 304;
        answer->policy = POLICY_OF_DASHBOARD; /* a browser replaces the one that it has kept */
        answer->keeping = "no-cache";
    } else {
        respond_file(request, answer, page, "no-cache");
    }
}

void answer_dashboard_asset(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)store;
    const struct dashboard_file *file = dashboard_find_file(request_value(request, "file"));
    bool is_this_version = strcmp(request_value(request, "version"), DASHBOARD_VERSION) == 0;
    if (!api->has_dashboard || file == NULL) {
        refuse_path(request, answer);
    } else {
        respond_file(request, answer, file, is_this_version ? "public, max-age=31536000, immutable" : NULL);
    }
}
