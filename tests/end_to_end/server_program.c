/* A server of the REST API without a node: `weir serve --listen` without what a node changes. So the tests of the command
 * line see the same store through it as without it.
 *
 * usage: server_program STORE ADDRESS. Prints "http at ADDRESS" and serves until its stdin ends. */
#include <stdio.h>
#include <unistd.h>

#include "server/api.h"
#include "server/bulk_jobs.h"
#include "server/http_server.h"

int main(int count, char **arguments)
{
    static struct api api;
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = NULL;
    struct http_server *server = NULL;
    char byte;
    if (count != 3) {
        (void)fprintf(stderr, "usage: server_program STORE ADDRESS\n");
        return 2;
    }
    const struct store_options options = {.url = arguments[1]};
    enum weir_status status = store_open(&options, &store, &error);
    if (status == WEIR_OK) {
        const struct access_options anyone = {.is_anonymous = true};
        status = access_open(&anyone, &api.access, &error);
    }
    if (status == WEIR_OK && access_start(api.access, store, &error) != WEIR_OK) {
        error.status = WEIR_OK; /* a store without tables has no tokens either, and its requests report that */
    }
    if (status == WEIR_OK) {
        api.bulk = bulk_jobs_open();
        status = api.bulk == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    }
    if (status == WEIR_OK) {
        const struct http_server_options http = {.listen = arguments[2], .certificate_file = "", .key_file = ""};
        status = http_server_open(&http, store, &api, &server, &error);
    }
    if (status == WEIR_OK) {
        status = http_server_start(server, &error);
    }
    if (status == WEIR_OK) {
        (void)printf("http at %s\n", http_server_addresses(server));
        (void)fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
    } else {
        (void)fprintf(stderr, "%s\n", error.message);
    }
    http_server_close(server);
    access_close(api.access);
    bulk_jobs_close(api.bulk);
    store_close(store);
    return status == WEIR_OK ? 0 : 1;
}
