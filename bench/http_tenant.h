/* Tokens of single workspaces, and requests that carry one. */
#ifndef WEIR_BENCH_HTTP_TENANT_H
#define WEIR_BENCH_HTTP_TENANT_H

#include "base/token_secret.h"
#include "bench.h"

enum { HTTP_TENANT_REQUEST_MAX = 512 };

/* A token of one workspace, of the role enqueue. `rate` 0: of the server alone. */
void http_tenant_token(struct store *store, const char *name, const char *workspace, int64_t rate,
                       char secret[TOKEN_SECRET_LENGTH + 1]);
/* `to` holds HTTP_TENANT_REQUEST_MAX bytes. Body NULL: none. Returns the length. */
size_t http_tenant_request(const char *secret, const char *method, const char *path, const char *body, char *to);

#endif
