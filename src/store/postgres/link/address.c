/* Parses the URL of a store, and fills the name of its schema into every query.
 *
 * 1. Weir's own parameters (schema, pooler, listen) are taken out of the URL; the rest goes to libpq's parser.
 * 2. The servers become one entry each, with its host, address and port.
 * 3. The URL is written again without secrets, for messages.
 * 4. Every query gets the name of the schema, and the name under which connections prepare it.
 *
 * An address never changes after that, but for two atomic facts: the server that answered last, and that a pooler is in
 * between. This file never connects, and never puts a password into a message. Any thread; references are counted. */
#include "store/postgres/link/address.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/postgres/link/libpq.h"

enum { OWN_VALUE_MAX = 64 };

/* --- our own parameters --- */

/* Only a plain name is accepted, since it becomes part of SQL texts. */
static enum weir_status set_schema(struct address *address, const char *name, struct weir_error *error)
{
    bool fine = islower((unsigned char)name[0]) || name[0] == '_';
    for (size_t i = 0; name[i] != '\0'; i++) {
        fine = fine && (islower((unsigned char)name[i]) || isdigit((unsigned char)name[i]) || name[i] == '_');
    }
    if (!fine || strlen(name) >= SCHEMA_NAME_MAX || strncmp(name, "pg_", 3) == 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the schema \"%.64s\" of the store's URL cannot be used", name);
        error_hint(error, "a schema has small letters, digits and _, at most %d, and does not begin with pg_",
                   SCHEMA_NAME_MAX - 1);
        return WEIR_INVALID_ARGUMENT;
    }
    text_copy(address->schema, sizeof address->schema, name);
    return WEIR_OK;
}

/* A parameter of weir with a value that it does not have. */
static enum weir_status refuse_value(const char *name, const char *value, const char *known, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "%s=%.64s in the store's URL is not known", name, value);
    error_hint(error, "%s can be %s", name, known);
    return WEIR_INVALID_ARGUMENT;
}

/* Applies one parameter of the URL if it is weir's own. */
static enum weir_status take_own_parameter(struct address *address, const char *name, const char *value, bool *ret_ours,
                                           struct weir_error *error)
{
    *ret_ours = true;
    if (strcmp(name, "schema") == 0) {
        return set_schema(address, value, error);
    }
    if (strcmp(name, "pooler") == 0) {
        if (strcmp(value, "transaction") != 0 && strcmp(value, "none") != 0) {
            return refuse_value(name, value, "transaction or none", error);
        }
        address->pooled = value[0] == 't';
        return WEIR_OK;
    }
    if (strcmp(name, "listen") == 0) {
        if (strcmp(value, "off") != 0 && strcmp(value, "on") != 0) {
            return refuse_value(name, value, "on or off", error);
        }
        address->listen = value[1] == 'n';
        return WEIR_OK;
    }
    *ret_ours = false;
    return WEIR_OK;
}

/* Copies the URL without weir's own parameters: libpq refuses parameters that it does not have. */
static enum weir_status split_parameters(struct address *address, const char *location, struct text *rest,
                                         struct weir_error *error)
{
    const char *query = strchr(location, '?');
    size_t head = query == NULL ? strlen(location) : (size_t)(query - location);
    enum weir_status status = text_add(rest, location, head);
    const char *mark = "?";
    for (const char *at = query == NULL ? NULL : query + 1; at != NULL && *at != '\0' && status == WEIR_OK;) {
        size_t length = strcspn(at, "&");
        size_t name_length = strcspn(at, "=&");
        char name[OWN_VALUE_MAX] = "";
        char value[OWN_VALUE_MAX] = "";
        bool ours = false;
        if (name_length < length && name_length < sizeof name && length - name_length - 1 < sizeof value) {
            memcpy(name, at, name_length);
            memcpy(value, at + name_length + 1, length - name_length - 1);
            status = take_own_parameter(address, name, value, &ours, error);
        }
        if (!ours && status == WEIR_OK) {
            status = text_add_string(rest, mark);
            status = status == WEIR_OK ? text_add(rest, at, length) : status;
            mark = "&";
        }
        at += length;
        at += *at == '&';
    }
    return status;
}

/* --- libpq's part --- */

const char *address_option(const struct address *address, const char *keyword)
{
    for (const PQconninfoOption *option = address->options; option->keyword != NULL; option++) {
        if (strcmp(option->keyword, keyword) == 0) {
            return option->val;
        }
    }
    return NULL;
}

/* libpq connects there without a network that another machine could read. */
static bool is_this_machine(const struct address_host *server)
{
    const char *host = server->hostaddr[0] != '\0' ? server->hostaddr : server->host;
    if (host[0] == '\0') { /* libpq's own default, by these or else the local socket */
        host = getenv("PGHOSTADDR") != NULL ? getenv("PGHOSTADDR") : getenv("PGHOST");
    }
    return host == NULL || host[0] == '\0' || host[0] == '/' || host[0] == '@' || strcmp(host, "localhost") == 0 ||
           strcmp(host, "::1") == 0 || strncmp(host, "127.", 4) == 0;
}

const char *address_optional_tls(const struct address *address)
{
    INVARIANT(address != NULL);
    const char *mode = address_option(address, "sslmode");
    bool is_local = true;
    for (size_t i = 0; i < address->host_count; i++) {
        is_local = is_local && is_this_machine(&address->hosts[i]);
    }
    mode = mode != NULL && mode[0] != '\0' ? mode : getenv("PGSSLMODE");
    mode = mode != NULL && mode[0] != '\0' ? mode : "prefer";
    bool is_optional = strcmp(mode, "prefer") == 0 || strcmp(mode, "allow") == 0;
    return is_optional && !is_local ? mode : NULL;
}

/* A message of libpq may quote a piece of a password that was not encoded, so only harmless messages are shown. */
static enum weir_status refuse_url(const char *message, struct weir_error *error)
{
    if (message != NULL && strncmp(message, "invalid URI query parameter", 27) == 0) {
        char line[160];
        text_copy(line, sizeof line, message);
        line[strcspn(line, "\n")] = '\0';
        error_set(error, WEIR_INVALID_ARGUMENT, "the store's URL cannot be used: %s", line);
        error_hint(error, "the parameters are those of libpq, and schema, pooler, listen");
    } else {
        error_set(error, WEIR_INVALID_ARGUMENT, "the store's URL cannot be read");
        error_hint(error,
                   "for example postgres://user@host:5432/database; in a password write / @ : # %% as %%2F %%40 %%3A "
                   "%%23 %%25");
    }
    return WEIR_INVALID_ARGUMENT;
}

/* The `index`th part of a list with commas into `to`; false when it is too long. An absent list has empty parts. */
static bool take_part(const char *list, size_t index, char *to, size_t size)
{
    to[0] = '\0';
    for (size_t i = 0; list != NULL && i < index; i++) {
        list = strchr(list, ',');
        list = list == NULL ? NULL : list + 1;
    }
    size_t length = list == NULL ? 0 : strcspn(list, ",");
    if (length >= size) {
        return false;
    }
    if (length > 0) {
        memcpy(to, list, length);
    }
    to[length] = '\0';
    return true;
}

/* An absent list counts as one empty part. */
static size_t parts_of(const char *list)
{
    size_t count = 1;
    for (; list != NULL && *list != '\0'; list++) {
        count += *list == ',';
    }
    return count;
}

/* "" is libpq's default port. */
static bool is_port(const char *text)
{
    long port = strtol(text, NULL, 10);
    return text[0] == '\0' || (strspn(text, "0123456789") == strlen(text) && port >= 1 && port <= 65535);
}

/* Fills one entry per server, so that connect.c can give each a share of the time. */
static enum weir_status take_hosts(struct address *address, struct weir_error *error)
{
    const char *host = address_option(address, "host");
    const char *hostaddr = address_option(address, "hostaddr");
    const char *port = address_option(address, "port");
    size_t hosts = parts_of(host);
    size_t hostaddrs = parts_of(hostaddr);
    size_t ports = parts_of(port);
    size_t count = hosts > hostaddrs ? hosts : hostaddrs;
    if (count > ADDRESS_HOSTS_MOST || (hosts != count && host != NULL) || (hostaddrs != count && hostaddr != NULL) ||
        (ports != count && ports != 1)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the hosts of the store's URL do not fit together");
        error_hint(error, "at most %d hosts, each with its port, or one port for all", ADDRESS_HOSTS_MOST);
        return WEIR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < count; i++) {
        struct address_host *to = &address->hosts[i];
        bool fits = take_part(host, i, to->host, sizeof to->host) &&
                    take_part(hostaddr, i, to->hostaddr, sizeof to->hostaddr) &&
                    take_part(port, ports == 1 ? 0 : i, to->port, sizeof to->port);
        if (!fits || !is_port(to->port)) {
            return refuse_url(NULL, error); /* a password with an @ or : that was not encoded looks like this */
        }
    }
    address->host_count = count;
    return WEIR_OK;
}

/* --- the URL as it may be shown --- */

static bool option_is_secret(const PQconninfoOption *option)
{
    return strchr(option->dispchar, '*') != NULL || strcmp(option->keyword, "sslpassword") == 0;
}

/* Percent-encodes all but plain characters. */
static enum weir_status add_encoded(struct text *to, const char *value)
{
    enum weir_status status = WEIR_OK;
    for (; *value != '\0' && status == WEIR_OK; value++) {
        bool plain = isalnum((unsigned char)*value) || strchr("-._~/,", *value) != NULL;
        status = plain ? text_add(to, value, 1) : text_format(to, "%%%02X", (unsigned)(unsigned char)*value);
    }
    return status;
}

static enum weir_status add_parameter(struct text *to, const char **mark, const char *name, const char *value)
{
    enum weir_status status = text_format(to, "%s%s=", *mark, name);
    *mark = "&";
    return status == WEIR_OK ? add_encoded(to, value) : status;
}

static enum weir_status add_hosts(struct text *to, const struct address *address)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < address->host_count && status == WEIR_OK; i++) {
        const struct address_host *host = &address->hosts[i];
        const char *name = host->host[0] == '/' ? "" : host->host;
        status = text_format(to, strchr(name, ':') != NULL ? "%s[%s]%s%s" : "%s%s%s%s", i > 0 ? "," : "", name,
                             host->port[0] != '\0' ? ":" : "", host->port);
    }
    return status;
}

/* Writes the URL for messages: every option but the secret ones, in libpq's order, then weir's own parameters. */
static enum weir_status write_shown(struct address *address)
{
    struct text to = {.max = sizeof address->shown - 1};
    const char *user = address_option(address, "user");
    const char *database = address_option(address, "dbname");
    const char *host = address_option(address, "host");
    const char *mark = "?";
    enum weir_status status = text_add_string(&to, "postgres://");
    if (user != NULL && status == WEIR_OK) {
        status = add_encoded(&to, user);
        status = status == WEIR_OK ? text_add_string(&to, "@") : status;
    }
    status = status == WEIR_OK ? add_hosts(&to, address) : status;
    status = status == WEIR_OK ? text_add_string(&to, "/") : status;
    status = status == WEIR_OK && database != NULL ? add_encoded(&to, database) : status;
    if (host != NULL && strchr(host, '/') != NULL && status == WEIR_OK) {
        status = add_parameter(&to, &mark, "host", host);
    }
    static const char *const shown_before[] = {"user", "dbname", "host", "port"};
    for (const PQconninfoOption *option = address->options; option->keyword != NULL && status == WEIR_OK; option++) {
        bool before = option_is_secret(option) || option->val == NULL;
        for (size_t i = 0; i < sizeof shown_before / sizeof shown_before[0]; i++) {
            before = before || strcmp(option->keyword, shown_before[i]) == 0;
        }
        status = before ? WEIR_OK : add_parameter(&to, &mark, option->keyword, option->val);
    }
    if (strcmp(address->schema, "weir") != 0 && status == WEIR_OK) {
        status = add_parameter(&to, &mark, "schema", address->schema);
    }
    if (address->pooled && status == WEIR_OK) {
        status = add_parameter(&to, &mark, "pooler", "transaction");
    }
    if (!address->listen && status == WEIR_OK) {
        status = add_parameter(&to, &mark, "listen", "off");
    }
    text_copy(address->shown, sizeof address->shown, to.data == NULL ? "postgres:" : to.data);
    text_make_safe(address->shown);
    text_close(&to);
    return status;
}

/* --- the schema's name in SQL --- */

/* :schema is replaced as a whole name only, so ":schema_migrations" would stay as it is. */
static bool continues_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

char *address_fill(const struct address *address, const char *sql)
{
    INVARIANT(address != NULL && sql != NULL);
    struct text to = {.max = 16 * 1024 * 1024};
    enum weir_status status = text_add_string(&to, "");
    while (*sql != '\0' && status == WEIR_OK) {
        size_t plain = strcspn(sql, ":");
        status = text_add(&to, sql, plain);
        sql += plain;
        if (*sql == '\0' || status != WEIR_OK) {
            break;
        }
        if (strncmp(sql, ":'schema'", 9) == 0) {
            status = text_format(&to, "'%s'", address->schema);
            sql += 9;
        } else if (strncmp(sql, ":schema", 7) == 0 && !continues_name(sql[7])) {
            status = text_format(&to, "\"%s\"", address->schema);
            sql += 7;
        } else {
            size_t colons = strspn(sql, ":");
            status = text_add(&to, sql, colons);
            sql += colons;
        }
    }
    if (status != WEIR_OK) {
        text_close(&to);
        return NULL;
    }
    return to.data;
}

/* --- life --- */

/* NULL when memory ran out. */
static struct address_query *make_query(const struct address *address, enum postgres_query query)
{
    char *text = address_fill(address, postgres_queries[query].sql);
    size_t length = text == NULL ? 0 : strlen(text) + 1;
    struct address_query *made = text == NULL ? NULL : malloc(sizeof *made + length);
    if (made != NULL) {
        memcpy(made->text, text, length);
        (void)snprintf(made->prepared_name, PREPARED_NAME_MAX, "%.46s_%016llx", postgres_queries[query].name,
                       (unsigned long long)text_hash(text));
    }
    free(text);
    return made;
}

const struct address_query *address_query(struct address *address, enum postgres_query query)
{
    INVARIANT(address != NULL && query < QUERY_COUNT);
    struct address_query *known = atomic_load_explicit(&address->queries[query], memory_order_acquire);
    if (known != NULL) {
        return known;
    }
    struct address_query *made = make_query(address, query);
    /* Another thread may have made it meanwhile: the first one counts. */
    if (made != NULL && !atomic_compare_exchange_strong(&address->queries[query], &known, made)) {
        free(made);
        made = known;
    }
    return made;
}

/* A transaction that began can always end. */
static enum weir_status make_ends(struct address *address, struct weir_error *error)
{
    bool are_made = address_query(address, QUERY_COMMIT) != NULL && address_query(address, QUERY_ROLLBACK) != NULL;
    return are_made ? WEIR_OK : error_out_of_memory(error);
}

/* A password with a / or @ that is not encoded tears the URL: its rest would count as a host or a database, and would be
 * shown. Such a URL has an @ behind the first /, or two of them before it. */
static bool is_torn(const char *authority)
{
    size_t end = strcspn(authority, "?");
    const char *first = memchr(authority, '@', end);
    const char *slash = memchr(authority, '/', end);
    const char *second = first == NULL ? NULL : memchr(first + 1, '@', end - (size_t)(first + 1 - authority));
    return second != NULL || (first != NULL && slash != NULL && slash < first);
}

static enum weir_status parse_url(struct address *address, const char *location, struct weir_error *error)
{
    struct text url = {.max = ADDRESS_URL_MAX};
    char *message = NULL;
    enum weir_status status = text_add_string(&url, "postgresql:");
    status = status == WEIR_OK ? split_parameters(address, location, &url, error) : status;
    if (status == WEIR_OK && (strncmp(location, "//", 2) != 0 || is_torn(location + 2))) {
        status = refuse_url(NULL, error);
    }
    if (status == WEIR_FAILED) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the store's URL is longer than %d bytes", ADDRESS_URL_MAX);
    }
    if (status == WEIR_OK) {
        address->options = PQconninfoParse(url.data, &message);
        status = address->options == NULL ? refuse_url(message, error) : WEIR_OK;
        PQfreemem(message);
    }
    if (url.data != NULL) {
        explicit_bzero(url.data, url.length);
    }
    text_close(&url);
    status = status == WEIR_OK ? take_hosts(address, error) : status;
    if (status == WEIR_OK && write_shown(address) == WEIR_OUT_OF_MEMORY) {
        status = error_out_of_memory(error);
    }
    return status == WEIR_OK ? make_ends(address, error) : status;
}

enum weir_status address_parse(const char *location, struct address **ret_address, struct weir_error *error)
{
    INVARIANT(location != NULL && ret_address != NULL);
    return address_parse_within("weir", location, ret_address, error);
}

enum weir_status address_parse_within(const char *schema, const char *location, struct address **ret_address,
                                      struct weir_error *error)
{
    INVARIANT(schema != NULL && location != NULL && ret_address != NULL);
    enum weir_status status = libpq_load(error);
    if (status != WEIR_OK) {
        return status;
    }
    struct address *address = calloc(1, sizeof *address);
    if (address == NULL) {
        return error_out_of_memory(error);
    }
    address->references = 1;
    address->listen = true;
    text_copy(address->schema, sizeof address->schema, schema);
    status = parse_url(address, location, error);
    if (status != WEIR_OK) {
        address_release(address);
        return status;
    }
    *ret_address = address;
    return WEIR_OK;
}

struct address *address_share(struct address *address)
{
    INVARIANT(address != NULL && address->references > 0);
    atomic_fetch_add(&address->references, 1);
    return address;
}

void address_release(struct address *address)
{
    if (address == NULL || atomic_fetch_sub(&address->references, 1) != 1) {
        return;
    }
    for (int i = 0; i < QUERY_COUNT; i++) {
        free(address->queries[i]);
    }
    PQconninfoFree(address->options);
    free(address);
}
