/* `weir token create`, `weir token list` and `weir token revoke`.
 *
 * The secret of a token is made here, and the store gets its hash alone. It is printed on stdout once, so that a script can
 * take it, and stands in no message. A token that the store has refused is never printed. One thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/token_secret.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* --- token list --- */

/* "all", or the names with commas. */
static const char *workspaces_text(struct output *output, const json_t *token)
{
    const json_t *names = json_object_get(token, "workspaces");
    struct text text = {.max = 64 * 1024};
    size_t i;
    const json_t *name;
    if (!json_is_array(names)) {
        return "all";
    }
    enum weir_status status = text_add_string(&text, json_array_size(names) == 0 ? "none" : "");
    json_array_foreach(names, i, name)
    {
        status = status == WEIR_OK ? text_format(&text, "%s%s", i == 0 ? "" : ", ", json_string_value(name)) : status;
    }
    const char *safe = status == WEIR_OK ? output_safe(output, text.data) : "";
    text_close(&text);
    return safe;
}

/* Empty: the token has no limit of its own. */
static void add_limit_cell(struct table *table, const json_t *item, const char *key)
{
    int64_t limit = field_number(item, key, 0);
    if (limit == 0) {
        table_cell(table, NULL);
    } else {
        table_cell_format(table, "%" PRId64, limit);
    }
}

static json_t *limit_json(int64_t limit)
{
    return limit == 0 ? json_null() : json_integer(limit);
}

static void print_tokens(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {{.title = "TOKEN", .least = 8},
                                            {.title = "STATE"},
                                            {.title = "ROLE"},
                                            {.title = "WORKSPACES", .least = 10},
                                            {.title = "CREATED"},
                                            {.title = "EXPIRES"},
                                            {.title = "LAST USED"},
                                            {.title = "MAX BODY", .align = COLUMN_RIGHT},
                                            {.title = "RATE", .align = COLUMN_RIGHT}};
    struct table table;
    size_t i;
    json_t *item;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        const char *state = field_text(output, item, "state");
        bool is_live = state != NULL && strcmp(state, "live") == 0;
        table_cell(&table, field_text(output, item, "name"));
        table_cell_sign(&table, is_live ? SIGN_FINE : SIGN_GONE, state);
        table_cell(&table, field_text(output, item, "role"));
        table_cell(&table, workspaces_text(output, item));
        table_cell(&table, output_ago(output, field_text(output, item, "created_at"), now_us));
        table_cell(&table, output_ago(output, field_text(output, item, "expires_at"), now_us));
        table_cell(&table, output_ago(output, field_text(output, item, "last_used_at"), now_us));
        add_limit_cell(&table, item, "max_body_bytes");
        add_limit_cell(&table, item, "rate");
    }
    table_close(&table);
}

static enum weir_status list_tokens(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct list_view view = {
        .kind = LIST_TOKENS, .print = print_tokens, .empty = "there is no token; `weir token create` makes one"};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_token_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_tokens, error);
}

/* --- token create --- */

static json_t *names_json(const struct token_request *request)
{
    json_t *names = request->has_all_workspaces ? json_null() : json_array();
    for (size_t i = 0; i < request->workspace_count && !request->has_all_workspaces; i++) {
        (void)json_array_append_new(names, json_string(request->workspaces[i]));
    }
    return names;
}

/* `secret` NULL: it was not made. */
static enum weir_status print_token(const struct invocation *invocation, const struct token_request *request, int64_t id,
                                    const char *secret, struct weir_error *error)
{
    char expires[TIME_TEXT_MAX] = "";
    if (request->expires_at_us != 0) {
        time_format(request->expires_at_us, expires);
    }
    return verb_print_act(invocation,
                          json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:s?}", "name", request->name, "id",
                                    id == 0 ? json_null() : json_integer(id), "role", token_role_name(request->role),
                                    "workspaces", names_json(request), "expires_at",
                                    expires[0] == '\0' ? json_null() : json_string(expires), "max_body_bytes",
                                    limit_json(request->max_body_bytes), "rate", limit_json(request->rate), "secret",
                                    secret),
                          error);
}

static enum weir_status make_token(struct invocation *invocation, struct store *store, struct token_request *request,
                                   struct weir_error *error)
{
    struct output *output = invocation->output;
    char secret[TOKEN_SECRET_LENGTH + 1];
    int64_t id = 0;
    enum weir_status status = token_secret_make(secret, error);
    if (status == WEIR_OK && !token_secret_hash(secret, TOKEN_SECRET_LENGTH, request->hash)) {
        status = error_set(error, WEIR_SYSTEM, "OpenSSL cannot compute SHA-256");
    }
    if (status == WEIR_OK) {
        status = store_token_create(store, request, &id, error);
    }
    if (status == WEIR_OK) {
        output_report_sign(output, SIGN_FINE, "token %s is made; its secret is shown this once",
                           output_safe(output, request->name));
        if (output->format == OUTPUT_TABLE) {
            output_print(output, "%s\n", secret);
        }
        status = print_token(invocation, request, id, secret, error);
    }
    explicit_bzero(secret, sizeof secret);
    return status;
}

static enum weir_status create_token(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct token_request request = {.name = invocation_argument(invocation, 0),
                                    .has_all_workspaces = invocation_has(invocation, "all-workspaces")};
    int64_t now_us = 0;
    bool is_role = token_role_parse(invocation_text(invocation, "role"), &request.role);
    INVARIANT(is_role); /* the flag has the choices of the roles */
    request.workspaces = invocation_texts(invocation, "workspace", &request.workspace_count);
    enum weir_status status = store_time(store, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    request.expires_at_us = invocation_time(invocation, "expires-at", now_us, 0);
    request.max_body_bytes = invocation_number(invocation, "max-body-bytes", 0);
    request.rate = invocation_number(invocation, "rate", 0);
    if (!invocation_is_dry_run(invocation)) {
        return make_token(invocation, store, &request, error);
    }
    status = store_token_check(store, &request, error);
    if (status == WEIR_OK) {
        output_report(invocation->output, "would make token %s", output_safe(invocation->output, request.name));
        status = print_token(invocation, &request, 0, NULL, error);
    }
    return status;
}

enum weir_status verb_token_create(struct invocation *invocation, struct weir_error *error)
{
    bool is_for_all = invocation_has(invocation, "all-workspaces");
    if (!invocation_has(invocation, "role")) {
        return invocation_usage_error(invocation, error,
                                      "`weir token create` needs --role read, enqueue, operate or admin");
    }
    if (is_for_all == invocation_has(invocation, "workspace")) {
        return invocation_usage_error(invocation, error, "`weir token create` needs %s",
                                      is_for_all ? "either --workspace NAME or --all-workspaces, not both"
                                                 : "--workspace NAME, or --all-workspaces");
    }
    return verb_with_store(invocation, STORE_CHANGE, create_token, error);
}

/* --- token revoke --- */

static enum weir_status revoke_token(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    bool is_dry_run = invocation_is_dry_run(invocation);
    bool is_id = strspn(name, "0123456789") == strlen(name); /* no name is a number */
    enum weir_status status = WEIR_OK;
    if (!is_dry_run) {
        status = store_token_revoke(store, name, error);
    } else if (!is_id) {
        status = store_require_name(store, LIST_TOKENS, name, WEIR_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        output_report_sign(output, SIGN_FINE, "token %s %s", output_safe(output, name),
                           is_dry_run ? "would be revoked" : "is revoked");
        status = verb_print_act(invocation, json_pack("{s:s}", "name", name), error);
    }
    return status;
}

enum weir_status verb_token_revoke(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, revoke_token, error);
}
