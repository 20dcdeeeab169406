/* Tenants of the groups that measure one workspace against another over HTTP. */
#include "http_tenant.h"

#include <stdio.h>
#include <string.h>

static struct weir_error fault;

void http_tenant_token(struct store *store, const char *name, const char *workspace, int64_t rate,
                       char secret[TOKEN_SECRET_LENGTH + 1])
{
    const char *const workspaces[] = {workspace};
    struct token_request request = {
        .name = name, .role = TOKEN_ENQUEUE, .workspaces = workspaces, .workspace_count = 1, .rate = rate};
    int64_t id = 0;
    BENCH_OK(token_secret_make(secret, &fault), &fault);
    BENCH_CHECK(token_secret_hash(secret, TOKEN_SECRET_LENGTH, request.hash));
    BENCH_OK(store_token_create(store, &request, &id, &fault), &fault);
}

size_t http_tenant_request(const char *secret, const char *method, const char *path, const char *body, char *to)
{
    size_t length = body == NULL ? 0 : strlen(body);
    int written = snprintf(to, HTTP_TENANT_REQUEST_MAX,
                           "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                           "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                           method, path, secret, length, length == 0 ? "" : body);
    BENCH_CHECK(written > 0 && written < HTTP_TENANT_REQUEST_MAX);
    return (size_t)written;
}
